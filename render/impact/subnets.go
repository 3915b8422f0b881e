package impact

import (
	"slices"
	"strings"

	"copyhold.dev/copyhold/catalog"
)

// subnets says which running clusters live on subnets that are changed or gone.
func (c *comparer) subnets(objects []Object) {
	if c.was.Input == nil || c.was.Input.Catalog == nil {
		return
	}
	kind := c.was.Input.Catalog.SubnetClaim.Kind
	for i, o := range objects {
		if kind == "" || o.Kind != kind || o.Action != Delete && o.Action != InPlace {
			continue
		}
		var on []string
		for _, name := range catalog.Sorted(c.was.Clusters) {
			was := c.was.Clusters[name]
			if subnet, _ := was.Fed("subnet").(string); was.Request.Namespace+"/"+subnet == o.Name {
				on = append(on, was.Request.Name)
			}
		}
		if len(on) == 0 {
			continue
		}
		what := "machines of " + strings.Join(on, ", ") + " are there"
		if o.Action == Delete {
			what += ", and may lose their network with it"
		} else {
			what += ", and what becomes of them is for whoever makes the subnet: not checked"
		}
		objects[i].Words = strings.Join(slices.DeleteFunc([]string{o.Words, what}, func(s string) bool { return s == "" }), "; ")
	}
}
