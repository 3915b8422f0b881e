package catalog

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
)

// values are what a class source's chart is rendered with: those of catalog.yaml and those of the KMetal resource, if there is one.
func (c *Catalog) values(key string) (map[string]any, diag.List, error) {
	s := c.Classes[key]
	if s.KMetal == "" {
		return s.Values, c.tagged(key, s.Values), nil
	}
	k, found, err := c.kmetal(key)
	if err != nil || found.Failed() {
		return nil, found, err
	}
	for _, p := range conflicts(plainValues(s.Values), plainValues(k.values), nil) {
		found.Add(diag.Errorf(c.At(append([]string{"classes", key, "values"}, p...)...), "kmetal/conflict", "%s is %s here and %s in the KMetal resource %s",
			strings.Join(p, "."), diag.JSON(dig(s.Values, p...)), diag.JSON(dig(k.values, p...)), k.file).
			Hintf("the KMetal resource says what runs: remove the value here"))
	}
	all := merge(s.Values, k.values)
	found.Add(c.tagged(key, all)...)
	return all, found, nil
}

// containerDisk are the values of the container disk that kMetal documents.
var containerDisk = []string{"kubeadm", "containerDisk"}

// tagged finds a container disk whose name brings a tag or a digest of its own, where the chart appends one: no node could pull the two.
func (c *Catalog) tagged(key string, values map[string]any) diag.List {
	place := append(slices.Clone(containerDisk), "image")
	image := text(dig(values, place...)) // the chart's own is its author's
	name, digest, hasDigest := strings.Cut(image, "@")
	last := name[strings.LastIndex(name, "/")+1:]
	bare, tag, hasTag := strings.Cut(last, ":")
	if !hasDigest && !hasTag {
		return nil
	}
	disk, _ := dig(c.effective(key, values), containerDisk...).(map[string]any)
	at, given := c.valueAt(key)(place)
	if _, separate := disk["tag"]; !separate || !given {
		return nil
	}
	what, way := "tag", fmt.Sprintf("write image: %s and tag: %s", strings.TrimSuffix(name, last)+bare, tag)
	if hasDigest {
		what, way = "digest", fmt.Sprintf("write image: %s; what %s is of is named by a tag", strings.TrimSuffix(name, last)+bare, digest)
	}
	return diag.List{diag.Errorf(at, "image/tagged", "kubeadm.containerDisk.image %q has a %s, want the image alone: the tag is appended, and nobody could pull it", image, what).Hintf("%s", way)}
}

// valueAt says where the value at a path of a chart's values is written, if it is: in the KMetal resource or in catalog.yaml.
func (c *Catalog) valueAt(key string) func(p []string) (diag.Pos, bool) {
	read := sync.OnceValue(func() (k *kmetal) { // few are ever asked for
		if c.Classes[key].KMetal != "" {
			k, _, _ = c.kmetal(key) // what is wrong with it is found when its values are read
		}
		return k
	})
	return func(p []string) (diag.Pos, bool) {
		if k := read(); k != nil {
			if at, ok := k.valueAt(p); ok {
				return at, true
			}
		}
		own := append([]string{"classes", key, "values"}, p...)
		return c.At(own...), c.doc.Has(append([]string{"spec"}, own...)...)
	}
}

// effective are the values that a chart's templates see: its own defaults with the given ones over them. Subcharts are left out.
func (c *Catalog) effective(key string, values map[string]any) map[string]any {
	var defaults map[string]any
	data, err := fs.ReadFile(c.tree, path.Join(c.Dir(c.Classes[key].Chart), "values.yaml"))
	if err == nil {
		err = yaml.Unmarshal(data, &defaults)
	}
	if err != nil { // a chart need not have defaults; what is wrong with them is found when it is rendered
		defaults = nil
	}
	return merge(defaults, plainValues(values))
}

// ClassObjectsAllOn are the objects of a class source as ClassObjects gives them, but with every tier of the chart switched on: the
// classes that clusters were admitted with before a tier was switched off. ok is false when no tier is off.
func (c *Catalog) ClassObjectsAllOn(key string) (objects []*manifest.Object, ok bool) {
	values, found, err := c.values(key)
	if err != nil || found.Failed() || c.Classes[key].Chart == "" {
		return nil, false
	}
	on := map[string]any{}
	tiers, _ := c.effective(key, values)["tiers"].(map[string]any)
	for name, tier := range tiers {
		if enabled, set := dig(tier, "enabled").(bool); set && !enabled {
			on[name] = map[string]any{"enabled": true}
		}
	}
	if len(on) == 0 {
		return nil, false
	}
	objects, found, err = c.classObjects(key, map[string]any{"tiers": on})
	return objects, err == nil && !found.Failed()
}

// Withdrawn are the ClusterClasses of a class source that are there only when every tier of the chart is switched on.
func (c *Catalog) Withdrawn(key string) map[string]bool {
	all, ok := c.ClassObjectsAllOn(key)
	if !ok {
		return nil
	}
	out := map[string]bool{}
	for _, o := range all {
		if o.GetKind() == "ClusterClass" {
			out[o.GetName()] = true
		}
	}
	objects, _, err := c.ClassObjects(key)
	if err != nil {
		return nil
	}
	for _, o := range objects {
		delete(out, o.GetName())
	}
	return out
}

// Offered reports whether new clusters of a tier may be asked for: neither the tier nor its class is switched off.
func (c *Catalog) Offered(tier string) bool {
	t := c.Tiers[tier]
	return t.On() && (t.Chart != "" || !c.Withdrawn(t.From)[t.Class])
}

// merge lays values over others as helm does: mappings key by key, anything else whole. Neither is changed.
func merge(under, over map[string]any) map[string]any {
	out := maps.Clone(under)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range over {
		a, isMap := out[key].(map[string]any)
		if b, ok := value.(map[string]any); ok && isMap {
			value = merge(a, b)
		}
		out[key] = value
	}
	return out
}

// conflicts are the paths at which both have a value and the two differ.
func conflicts(a, b map[string]any, at []string) [][]string {
	var out [][]string
	for _, key := range Sorted(a) {
		other, both := b[key]
		if !both {
			continue
		}
		here := append(slices.Clone(at), key)
		x, isMap := a[key].(map[string]any)
		y, alsoMap := other.(map[string]any)
		switch {
		case isMap && alsoMap:
			out = append(out, conflicts(x, y, here)...)
		case !reflect.DeepEqual(a[key], other):
			out = append(out, here)
		}
	}
	return out
}

// plainValues are the values as JSON has them, so that two that mean the same are equal however they were read.
func plainValues(values map[string]any) map[string]any {
	var out map[string]any
	data, err := json.Marshal(values)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return nil
	}
	return out
}

// dig is the value at a path, nil when it is not there.
func dig(v any, p ...string) any {
	for _, key := range p {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

func text(v any) string {
	s, _ := v.(string)
	return s
}
