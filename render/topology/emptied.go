package topology

import (
	"maps"
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"

	"copyhold.dev/copyhold/render/manifest"
)

// Emptied is an object within a manifest that had fields and is {} now.
type Emptied struct {
	Field    string
	Replaced bool // null may stand there, or a default of the object's own stands in for it
}

// Emptied finds objects that are emptied between two states of a manifest that one manager applies. Server-side apply takes their fields
// away and then makes null of what is left, which the schema refuses where it does not allow null and has no default to put there
// (kubernetes/kubernetes#135841). The API servers of Kubernetes 1.36.0 to 1.36.2 leave {}.
func (s *Schemas) Emptied(was, is *manifest.Object) []Emptied {
	if was == nil || was.GroupVersionKind() != is.GroupVersionKind() {
		return nil
	}
	k, err := s.kind(is.GroupVersionKind())
	if k == nil || err != nil {
		return nil
	}
	spec := k.structural.Properties["spec"]
	var out []Emptied
	emptied("spec", was.Object["spec"], is.Object["spec"], &spec, &out)
	for i := range out { // a webhook fills these on the dry run
		out[i].Replaced = out[i].Replaced || is.GroupVersionKind() == kubeadmTemplate && kubeadmFills(out[i].Field)
	}
	return out
}

func kubeadmFills(field string) bool {
	_, below, ok := strings.Cut(field, "spec.template.spec.")
	return ok && slices.Contains([]string{"initConfiguration", "initConfiguration.nodeRegistration", "joinConfiguration", "joinConfiguration.nodeRegistration"}, below)
}

func emptied(path string, was, is any, s *structuralschema.Structural, out *[]Emptied) {
	a, okA := was.(map[string]any)
	b, okB := is.(map[string]any)
	if okA && okB {
		if s != nil && s.XMapType != nil && *s.XMapType == "atomic" {
			return
		}
		if len(b) == 0 && len(a) > 0 {
			*out = append(*out, Emptied{path, s == nil || s.Nullable || s.Default.Object != nil}) // nothing is said of null where there is no schema
			return
		}
		for _, name := range slices.Sorted(maps.Keys(b)) { // what is not there any more is taken away as a whole
			var p *structuralschema.Structural
			if s != nil {
				p = property(s, name)
			}
			emptied(path+"."+name, a[name], b[name], p, out)
		}
		return
	}
	listA, okA := was.([]any)
	listB, okB := is.([]any)
	if !okA || !okB || s == nil || s.XListType == nil || *s.XListType != "map" {
		return
	}
	for _, e := range listB { // entries with the same keys are one
		if i := slices.IndexFunc(listA, func(x any) bool { return sameKeys(x, e, s.XListMapKeys) }); i >= 0 {
			emptied(path+"[]", listA[i], e, s.Items, out)
		}
	}
}

func sameKeys(a, b any, keys []string) bool {
	return !slices.ContainsFunc(keys, func(k string) bool { return !sameJSON(at(a, k), at(b, k)) })
}

// at walks down maps; nil where there is nothing.
func at(v any, path ...string) any {
	for _, key := range path {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}
