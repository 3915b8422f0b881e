package impact

import (
	"fmt"
	"reflect"
	"strings"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/manifest"
)

// network tells of other ranges for a running cluster. Neither Cluster API nor Kamaji refuses them, and nothing that runs takes them. What
// else they bring about, as where a patch makes a template of them, is told beside it.
func network(d *Diff, was, is *render.Cluster) {
	field, before, after := is.Request.NetworkChange(was.Request)
	if field == "" {
		return
	}
	at := is.Request.At("spec", "clusterNetwork", field)
	d.Changes = append(d.Changes, Change{Action: InPlace, Words: "the ranges and the domain of a cluster cannot be changed later: what runs keeps the addresses and names that it has, and copyhold check --base refuses the change",
		Causes: []Cause{{At: at.String(), pos: at, Field: "clusterNetwork." + field, Before: before, After: after}}})
}

// readOnce finds an edit of what machines read by name when they are made: those that run would never take it. What may be read so is
// immutable, which the API server holds to.
func (c *comparer) readOnce(was, is *render.Cluster, before, after *manifest.Object) (Change, bool) {
	if reflect.DeepEqual(render.Content(before), render.Content(after)) {
		return Change{}, false
	}
	var pools []string
	for _, name := range catalog.Sorted(is.Made.Pools) {
		if p := is.Made.Pools[name]; render.Reads(p.Bootstrap, after) || render.Reads(p.Infrastructure, after) {
			pools = append(pools, name)
		}
	}
	if len(pools) == 0 {
		return Change{}, false
	}
	id := manifest.IDOf(after)
	return Change{Action: Rejected, Words: fmt.Sprintf("%s %s is edited under its name, and machines of %s read it once, when they are made: the API server refuses the edit of what is immutable; another name is a rollout", id.Kind, id.Name, strings.Join(pools, ", ")),
		Causes: c.writtenCauses(was, is, func(w *render.Made) any {
			for _, o := range w.Objects {
				if manifest.IDOf(o) == id {
					return render.Content(o)
				}
			}
			return nil
		})}, true
}
