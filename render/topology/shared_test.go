package topology

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"copyhold.dev/copyhold/render/manifest"
)

// A class is used from several goroutines. A map that one of them writes to ends the test.
func TestClassIsShared(t *testing.T) {
	c := class(t)
	r := rand.New(rand.NewPCG(4, 4))
	var objects []*manifest.Object
	for i := range 60 {
		objects = append(objects, cluster(t, fmt.Sprintf("c-%d", i), randomVariables(r, true)))
	}
	want, variables := c.AdmitAll(objects), c.Variables()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				if got := c.Variables(); !reflect.DeepEqual(got, variables) {
					t.Errorf("Variables = %v, want %v", got, variables)
				}
			}
		})
		wg.Go(func() {
			if got := c.AdmitAll(objects); !reflect.DeepEqual(got, want) {
				t.Errorf("AdmitAll answers otherwise among others")
			}
		})
	}
	wg.Wait()
}
