package strict

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kjson "sigs.k8s.io/json"
)

// wide has a field of every type that a format here has.
type wide struct {
	target
	Name2 string             `json:"a,omitempty"`
	Deep  map[string]*target `json:"deep,omitempty"`
	Map   map[string]target  `json:"map,omitempty"`
	Lists [][]string         `json:"lists,omitempty"`
	Ints  []int64            `json:"ints,omitempty"`
	Int   int                `json:"int,omitempty"`
	Ptr   *target            `json:"ptr,omitempty"`
	Word  word               `json:"word,omitempty"`
	Free  any                `json:"free,omitempty"`
	List  []any              `json:"list,omitempty"`
}

type word string

// A struct is filled as encoding/json would fill it from the same data, over what it holds already.
func TestDecodeIsJSON(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, 7))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	text := func() string {
		return pick("x", "'1.30'", "~", "2024-01-01", "\"a\\tb\"", "'<&>'", "ü")
	}
	count := func() string { return pick("0", "3", "+3", "-0", "-7", "2147483647", "~") }
	free := func() string {
		return pick("1", "1.0", "1e3", "+5", "-0", "9223372036854775807", "9223372036854775808", "0.1", "x", "~", "true", "FALSE", "{}", "[]", "[1, {a: 2.5}]", "{a: {b: [~, 'x']}}", "2024-01-01", "1.5e300")
	}
	small := func() string {
		return fmt.Sprintf("{name: %s, count: %s, on: %s, tags: {a: %s}, inner: {list: [%s, x]}, any: {n: %s}}", text(), count(), pick("true", "False", "~"), text(), text(), free())
	}
	fields := map[string]func() string{
		"name": text, "a": text, "word": text, "count": count, "int": count, "on": func() string { return pick("true", "false", "~") },
		"tags": func() string { return pick("~", "{}", "{a: b, c: "+text()+"}") }, "inner": func() string { return pick("~", "{}", "{list: ~}", "{list: []}", "{list: [a, "+text()+"]}") },
		"any": func() string { return pick("~", "{}", "{a: "+free()+", b: "+free()+"}") }, "free": free, "list": func() string { return pick("~", "[]", "["+free()+"]") },
		"deep": func() string { return pick("~", "{}", "{a: ~}", "{a: "+small()+"}") }, "map": func() string { return pick("~", "{a: ~}", "{a: "+small()+"}") },
		"lists": func() string { return pick("~", "[]", "[[], ~, [a, ~]]") }, "ints": func() string { return pick("~", "["+count()+"]") }, "ptr": func() string { return pick("~", "{}", small()) },
	}
	for i := range 5000 {
		var b strings.Builder
		b.WriteString("name: x\n")
		for name, value := range fields {
			if name != "name" && r.IntN(3) > 0 {
				b.WriteString(name + ": " + value() + "\n")
			}
		}
		docs, found := Parse("f.yaml", []byte(b.String()))
		if len(found) > 0 {
			t.Fatalf("seed %d: %s\n%s", seed, found, b.String())
		}
		had := func() wide {
			if i%2 == 0 {
				return wide{}
			}
			n := int32(9)
			return wide{target: target{Name: "had", Count: &n, Tags: map[string]string{"had": "1"}, Any: map[string]any{"had": 1}}, Int: 4, Ptr: &target{Name: "had"}, Map: map[string]target{"a": {Name: "had"}}}
		}
		got, want := had(), had()
		if found := docs[0].Decode("test", &got); len(found) > 0 {
			t.Fatalf("seed %d: %s\n%s", seed, found, b.String())
		}
		data, err := json.Marshal(docs[0].Value())
		if err == nil {
			err = kjson.UnmarshalCaseSensitivePreserveInts(data, &want)
		}
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(wide{})); d != "" {
			t.Fatalf("seed %d: Decode (-JSON +Decode) of\n%s\n%s", seed, b.String(), d)
		}
	}
}
