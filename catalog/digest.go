package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"copyhold.dev/copyhold/render/manifest"
)

// ClassParts are digests of what Cluster API acts on in a ClusterClass and in the templates it names, part by part: each variable, each
// patch, each template has one of its own. Two classes have the same parts when CompareLive finds no difference between them. A
// template that is not among the objects has the part "missing". There are none of a class that is not there.
func ClassParts(objects []*manifest.Object, namespace, class string) (map[string]string, error) {
	o := findClass(objects, namespace, class)
	if o == nil {
		return nil, nil
	}
	spec, err := classSpec(o)
	if err != nil {
		return nil, fmt.Errorf("ClusterClass %s/%s: %w", namespace, class, err)
	}
	parts := map[string]string{}
	split("spec", spec, parts)
	beside := inNamespace(objects, namespace)
	for _, r := range TemplateRefs(o) {
		var content any = "missing"
		if t := r.find(beside); t != nil {
			content = t.Object["spec"]
		}
		parts["template at "+r.Place] = Sum([]any{r.APIVersion, r.Kind, content})
	}
	return parts, nil
}

// split takes a class's spec apart where its lists have names.
func split(place string, v any, parts map[string]string) {
	m, isMap := v.(map[string]any)
	list, isList := v.([]any)
	key := keyed[place]
	switch {
	case isMap && (place == "spec" || place == "spec.workers"):
		for _, name := range Sorted(m) {
			split(place+"."+name, m[name], parts)
		}
	case isList && key != "":
		for i, name := range names(list, key) {
			parts[place[len("spec."):]+"["+name+"]"] = Sum(list[i])
		}
		if order := names(list, key); place == "spec.patches" && !slices.IsSorted(order) {
			parts["order of patches"] = Sum(order)
		}
	default:
		parts[place] = Sum(v)
	}
}

// Sum is a short digest of a value of JSON, whatever the order of its keys.
func Sum(v any) string {
	j, err := json.Marshal(v) // sorts keys
	if err != nil {
		panic(err) // it came from JSON
	}
	h := sha256.Sum256(j)
	return hex.EncodeToString(h[:6])
}
