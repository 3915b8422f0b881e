package topology

import (
	"fmt"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"copyhold.dev/copyhold/render/manifest"
)

// Variables are a Cluster's topology variables by name or, with a pool, the pool's own values.
func Variables(o *manifest.Object, pool string) map[string]any {
	values := list(o, "spec", "topology", "variables")
	if pool != "" {
		own, _ := PoolOf(o, pool)["variables"].(map[string]any)
		values, _ = own["overrides"].([]any)
	}
	out := map[string]any{}
	for _, v := range values {
		m, _ := v.(map[string]any)
		if name, ok := m["name"].(string); ok {
			out[name] = m["value"]
		}
	}
	return out
}

// ClassChanges name what has changed between two states of a class and bears on these differences of a pool: patches by name, templates
// by kind and name, fields of the worker class. Without differences it is all that has changed. after is the pool as the new class makes it.
func ClassChanges(was, is *Class, after *Pool, differences []Difference) []string {
	var out []string
	for _, o := range []*manifest.Object{after.Infrastructure, after.Bootstrap} {
		var paths []string
		for _, d := range differences {
			if d.Object == o.GetKind() {
				paths = append(paths, d.Path)
			}
		}
		if len(paths) == 0 && len(differences) > 0 {
			continue
		}
		out = append(out, changedPatches(was, is, o, paths)...)
		name := o.GetAnnotations()[clusterv1.TemplateClonedFromNameAnnotation]
		now := is.templateNamed(o, name)
		before := was.templateNamed(o, name)
		if before == nil { // the new one has another name, as it should
			before = was.sameRole(is, o, name)
		}
		if now != nil && before != nil && !sameJSON(before.Object["spec"], now.Object["spec"]) && (len(paths) == 0 || touches(before, now, paths)) {
			words := fmt.Sprintf("%s %s of class %s", o.GetKind(), name, is.Key())
			if before.GetName() != name {
				words += " in place of " + before.GetName()
			}
			out = append(out, words)
		}
	}
	if slices.ContainsFunc(differences, func(d Difference) bool { return d.Object == "" && d.Path == "failureDomain" }) {
		out = append(out, "failureDomain of a worker class of class "+is.Key().String())
	}
	return out
}

// touches reports whether what differs between two templates is among the paths, or holds one of them.
func touches(was, is *manifest.Object, paths []string) bool {
	var all []Difference
	compare(is.GetKind(), "", was.Object["spec"], is.Object["spec"], &all)
	return slices.ContainsFunc(all, func(d Difference) bool { return nested(d.Path, paths) })
}

// nested reports whether a path is one of the others, above one or below one.
func nested(path string, others []string) bool {
	return slices.ContainsFunc(others, func(o string) bool {
		return o == path || strings.HasPrefix(o, path+".") || strings.HasPrefix(path, o+".") || strings.HasPrefix(o, path+"[") || strings.HasPrefix(path, o+"[")
	})
}

func (c *Class) templateNamed(like *manifest.Object, name string) *manifest.Object {
	gvk := like.GroupVersionKind()
	return c.templates[templateKey{gvk.Group, gvk.Kind, name}]
}

// sameRole is the template that an older class has where the newer one names a template.
func (c *Class) sameRole(newer *Class, like *manifest.Object, name string) *manifest.Object {
	mine := references(c.class)
	for place, r := range references(newer.class) {
		if r.Name == name && r.Kind == like.GetKind() {
			return c.template(mine[place])
		}
	}
	return nil
}

// changedPatches are the patches on a template's kind that are not what they were: those that write one of the paths, or all of them
// when none is known to.
func changedPatches(was, is *Class, o *manifest.Object, paths []string) []string {
	type state struct{ was, is *clusterv1.ClusterClassPatch }
	states := map[string]*state{}
	var order []string
	enter := func(patches []clusterv1.ClusterClassPatch, put func(*state, *clusterv1.ClusterClassPatch)) {
		for i := range patches {
			p := &patches[i]
			if states[p.Name] == nil {
				states[p.Name] = &state{}
				order = append(order, p.Name)
			}
			put(states[p.Name], p)
		}
	}
	enter(is.patchesOn(o), func(s *state, p *clusterv1.ClusterClassPatch) { s.is = p })
	enter(was.patchesOn(o), func(s *state, p *clusterv1.ClusterClassPatch) { s.was = p })
	var writing, others []string
	for _, name := range order {
		s := states[name]
		if s.was != nil && s.is != nil && sameJSON(s.was, s.is) {
			continue
		}
		words := fmt.Sprintf("patch %q of class %s", name, is.Key())
		if s.was == nil {
			words += " is new"
		} else if s.is == nil {
			words += " is gone"
		}
		if writes(s.was, paths) || writes(s.is, paths) {
			writing = append(writing, words)
		} else {
			others = append(others, words)
		}
	}
	if len(writing) > 0 {
		return writing
	}
	return others
}

// writes reports whether a patch writes to one of the paths, as far as its own paths tell.
func writes(p *clusterv1.ClusterClassPatch, paths []string) bool {
	if p == nil {
		return false
	}
	for _, d := range p.Definitions {
		for _, j := range d.JSONPatches {
			path := ""
			for _, key := range strings.Split(strings.TrimPrefix(j.Path, "/spec/"), "/") {
				key = strings.ReplaceAll(strings.ReplaceAll(key, "~1", "/"), "~0", "~")
				if key == "-" || strings.Trim(key, "0123456789") == "" {
					break // an entry of a list: which one is not said by its number
				}
				path = join(path, key)
			}
			if nested(path, paths) {
				return true
			}
		}
	}
	return false
}
