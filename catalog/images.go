package catalog

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/mod/semver"
	"k8s.io/apimachinery/pkg/api/resource"
)

// StorageVariable is the variable that says which storage tier a machine's boot volume is of, in the notation of topology.Defaults.
// Its choices are the storage tiers on offer; a class without it boots from something else.
const StorageVariable = "machineStorage.size"

// Image is a golden image: machines of one storage tier and Kubernetes version are cloned from it.
type Image struct {
	Source      string // key in classes
	StorageTier string // as in 30Gi
	Version     string
	Space       resource.Quantity // what it takes of the storage class
}

// overhead is what a golden image takes beside twice its storage tier: kMetal's documentation gives about 10 GiB.
var overhead = resource.MustParse("10Gi")

// Images are the golden images of a class source with these storage tiers, one for each tier and version, and all of them together.
func Images(source string, storageTiers, versions []string) ([]Image, error) {
	sizes := map[string]resource.Quantity{}
	for _, t := range storageTiers {
		q, err := resource.ParseQuantity(t)
		if err != nil || q.Sign() <= 0 {
			return nil, fmt.Errorf("storage tier %q of class source %q is not a size", t, source)
		}
		sizes[t] = q
	}
	var out []Image
	for tier, size := range sizes {
		for _, v := range slices.Compact(slices.Sorted(slices.Values(versions))) {
			space := size.DeepCopy()
			space.Add(size)
			space.Add(overhead)
			out = append(out, Image{source, tier, v, space})
		}
	}
	slices.SortFunc(out, func(a, b Image) int {
		x, y := sizes[a.StorageTier], sizes[b.StorageTier]
		return cmp.Or(x.Cmp(y), cmp.Compare(a.StorageTier, b.StorageTier), semver.Compare(a.Version, b.Version), cmp.Compare(a.Version, b.Version))
	})
	return out, nil
}

// Space is what images take together.
func Space(images []Image) resource.Quantity {
	var sum resource.Quantity
	for _, i := range images {
		sum.Add(i.Space)
	}
	return sum
}
