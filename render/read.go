package render

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"copyhold.dev/copyhold/render/manifest"
)

// Reads reports whether a template, or another object, names an object: by kind and name, and a Secret or ConfigMap also by a name at a
// place that says so, as files[].contentFrom.secret.name of a KubeadmConfigTemplate does. Machines read once what their templates name.
func Reads(by *manifest.Object, o *manifest.Object) bool {
	spec := by.Object["spec"]
	return names(spec, o.GetKind(), o.GetName()) || HoldsData(o) && reads(spec, strings.ToLower(o.GetKind()), o.GetName(), false)
}

// HoldsData reports whether an object is a Secret or a ConfigMap.
func HoldsData(o *manifest.Object) bool {
	return o.GetAPIVersion() == "v1" && (o.GetKind() == "Secret" || o.GetKind() == "ConfigMap")
}

// names looks for a reference by kind and name.
func names(v any, kind, name string) bool {
	switch x := v.(type) {
	case map[string]any:
		if x["kind"] == kind && x["name"] == name {
			return true
		}
		for _, inner := range x {
			if names(inner, kind, name) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(x, func(inner any) bool { return names(inner, kind, name) })
	}
	return false
}

// reads looks for a name at a place whose path names its kind.
func reads(v any, kind, name string, named bool) bool {
	switch x := v.(type) {
	case map[string]any:
		for key, inner := range x {
			if reads(inner, kind, name, named || strings.Contains(strings.ToLower(key), kind)) {
				return true
			}
		}
	case []any:
		for _, inner := range x {
			if reads(inner, kind, name, named) {
				return true
			}
		}
	case string:
		return named && x == name
	}
	return false
}

// Content is what a Secret or ConfigMap holds, as the API server keeps it: stringData of a Secret becomes data.
func Content(o *manifest.Object) map[string]any {
	out := map[string]any{"type": o.Object["type"]}
	for _, field := range []string{"data", "binaryData"} {
		if m, _ := o.Object[field].(map[string]any); len(m) > 0 {
			out[field] = m
		}
	}
	if texts, _ := o.Object["stringData"].(map[string]any); len(texts) > 0 {
		data := map[string]any{}
		if m, ok := out["data"].(map[string]any); ok {
			maps.Copy(data, m)
		}
		for key, v := range texts {
			data[key] = base64.StdEncoding.EncodeToString([]byte(fmt.Sprint(v)))
		}
		out["data"] = data
	}
	return out
}

// readOnce finds what machines read by name when they are made, and that can be edited under its name: those that run would never take
// the edit.
func (i *inspector) readOnce(objects []*manifest.Object) {
	for _, o := range objects {
		for _, template := range objects {
			if isTemplate(template) && HoldsData(o) && o.Object["immutable"] != true && Reads(template, o) {
				i.fault("chart/read-once", "makes %s of %s, which %s names, and machines read it once, when they are made: an edit of it would never reach those that run; want immutable: true, and a name that changes with the content, as NAME-{{ sha256sum .. }}",
					manifest.IDOf(o), i.d.request, manifest.IDOf(template))
			}
		}
	}
}
