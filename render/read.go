package render

import (
	"strings"

	"copyhold.dev/copyhold/render/manifest"
)

// Reads reports whether machines that are made from a template read a Secret or ConfigMap by its name, as files[].contentFrom.secret.name
// of a KubeadmConfigTemplate does: they read it once, when they are made.
func Reads(template *manifest.Object, o *manifest.Object) bool {
	id := manifest.IDOf(o)
	return id.Group == "" && (id.Kind == "Secret" || id.Kind == "ConfigMap") && reads(template.Object["spec"], strings.ToLower(id.Kind), id.Name, false)
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

// Content is what a Secret or ConfigMap holds.
func Content(o *manifest.Object) map[string]any {
	out := map[string]any{}
	for _, field := range []string{"data", "stringData", "binaryData"} {
		if v := o.Object[field]; v != nil {
			out[field] = v
		}
	}
	return out
}

// readOnce finds what machines read by name when they are made, and that can be edited under its name: those that run would never take
// the edit.
func (i *inspector) readOnce(objects []*manifest.Object) {
	for _, o := range objects {
		for _, template := range objects {
			if isTemplate(template) && Reads(template, o) && o.Object["immutable"] != true {
				i.fault("chart/read-once", "makes %s of %s, which %s names, and machines read it once, when they are made: an edit of it would never reach those that run; want immutable: true, and a name that changes with the content, as NAME-{{ sha256sum .. }}",
					manifest.IDOf(o), i.d.request, manifest.IDOf(template))
			}
		}
	}
}
