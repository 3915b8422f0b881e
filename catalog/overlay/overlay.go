// Package overlay changes rendered objects by a platform team's Kustomize overlay: patches, labels, annotations, replacements.
// It never adds, removes, renames or reorders objects, runs no plugin and fetches nothing; which objects an overlay is for, and
// whether what comes out is valid, is for the caller to say. It is the only importer of kustomize's api.
//
// Load reads and checks a folder once, Overlay.Apply changes objects as often as needed, Overlay.Unmatched finds patches that have
// nothing left to change.
//
// # What kustomize is given
//
// Kustomize reads a file system in memory that holds the objects and a kustomization written here, from what Load has read and
// checked. Every patch stands in it as text, so kustomize sees no path, URL or repository of the author's; and no field it would
// print a deprecation notice about, for it prints to the process's stderr.
//
// # Patches for custom resources
//
// Kustomize knows the merge keys of Kubernetes' own lists only. In a strategic merge patch for a Cluster, any list replaces the
// whole list, variables included: use a JSON 6902 patch to change one element. Of Kubernetes' own kinds it knows where pods are
// described: commonAnnotations go there as well, in a Deployment for one.
package overlay

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"

	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
)

// Overlay is what one overlay folder asks for, read and checked. The zero value changes nothing. It may be used by several
// goroutines at once, though kustomize then runs for one of them after the other.
type Overlay struct {
	file        string // the kustomization file, for findings
	labels      []types.Label
	annotations map[string]string
	entries     []entry // in the order in which they take effect
}

// entry is one patch or one replacement.
type entry struct {
	pos         diag.Pos
	patch       types.Patch        // its text is JSON, its path is empty
	object      resid.ResId        // what a patch without a target is for
	replacement *types.Replacement // set in place of patch
	late        bool               // takes effect after labels and annotations: patchesJson6902 and replacements do
}

// Apply returns the objects as the overlay changes them, in their order. The objects given are not changed.
//
// A patch or replacement whose target is not among the objects does nothing, so an overlay for a fleet can be applied to one
// tenant's part of it. (Kustomize itself fails when a strategic merge patch without a target names an absent object.)
// Where a replacement has targets among the objects, its source must be there as well.
//
// On a finding, overlay/failed or overlay/identity, nothing is returned. An object keeps its apiVersion, kind, namespace and name.
// Kustomize takes out an empty metadata.annotations or metadata.labels, and annotations of its own (internal.config.kubernetes.io,
// config.kubernetes.io/origin and a few more); all else that no patch touches comes back as it was.
func (o Overlay) Apply(in []*manifest.Object) ([]*manifest.Object, diag.List) {
	if len(o.entries) == 0 && len(o.labels) == 0 && len(o.annotations) == 0 {
		out := make([]*manifest.Object, 0, len(in))
		for _, obj := range in {
			out = append(out, obj.DeepCopy())
		}
		return out, nil
	}
	// Kustomize compares every object with every other, so many at once are slow. A replacement may need any two together.
	batch := 100
	if slices.ContainsFunc(o.entries, func(e entry) bool { return e.replacement != nil }) {
		batch = len(in)
	}
	all := make([]*manifest.Object, 0, len(in))
	var found diag.List
	for part := range slices.Chunk(in, max(batch, 1)) {
		out, err := o.run(o.entries, part)
		if err != nil {
			return nil, append(found, o.failure(part, err))
		}
		found.Add(o.identities(part, out)...)
		all = append(all, out...)
	}
	if found.Failed() {
		return nil, found
	}
	return all, nil
}

// Unmatched finds, as warnings, the patches and replacements whose target is not among the objects: those kustomize ignores in
// silence. It is meant for everything that is rendered, not for a part. Only kind, group, version, name and namespace are looked
// at: what a label or annotation selector selects may depend on a patch before it.
func (o Overlay) Unmatched(objects []*manifest.Object) diag.List {
	if len(objects) == 0 {
		return nil
	}
	var found diag.List
	ids := idsOf(objects)
	for _, e := range o.entries {
		if !e.concerns(ids) {
			found.Add(diag.Warnf(e.pos, "overlay/no-match", "no object has %s: this changes nothing", e.aim()))
		}
	}
	return found
}

func idsOf(objects []*manifest.Object) []resid.ResId {
	ids := make([]resid.ResId, 0, len(objects))
	for _, obj := range objects {
		ids = append(ids, idOf(obj.GetAPIVersion(), obj.GetKind(), obj.GetNamespace(), obj.GetName()))
	}
	return ids
}

func idOf(apiVersion, kind, namespace, name string) resid.ResId {
	kustomize.Lock() // whether a kind has a namespace is looked up in kustomize's schema
	defer kustomize.Unlock()
	group, version := resid.ParseGroupVersion(apiVersion)
	return resid.NewResIdWithNamespace(resid.NewGvk(group, version, kind), name, namespace)
}

// concerns reports whether one of the objects is what the entry is for, as far as their identity tells.
func (e entry) concerns(ids []resid.ResId) bool {
	if e.named() {
		return slices.ContainsFunc(ids, e.object.Equals)
	}
	for _, target := range e.targets() {
		s, err := types.NewSelectorRegex(&types.Selector{ResId: target})
		if err != nil {
			return true // Load has refused it
		}
		// Kustomize asks the same, of the same.
		if slices.ContainsFunc(ids, func(id resid.ResId) bool {
			return s.MatchNamespace(id.EffectiveNamespace()) && s.MatchName(id.Name) && s.MatchGvk(id.Gvk)
		}) {
			return true
		}
	}
	return false
}

// named reports whether the entry is for one object, by its name, and not for those a target selects.
func (e entry) named() bool { return e.replacement == nil && e.patch.Target == nil }

// targets are what the entry is for.
func (e entry) targets() []resid.ResId {
	switch {
	case e.named():
		return []resid.ResId{e.object}
	case e.replacement == nil:
		return []resid.ResId{e.patch.Target.ResId}
	}
	var out []resid.ResId
	for _, t := range e.replacement.Targets {
		out = append(out, t.Select.ResId)
	}
	return out
}

// aim is what the entry is for, in words.
func (e entry) aim() string {
	var all []string
	for _, id := range e.targets() {
		var words []string
		for _, w := range [][2]string{{"group", id.Group}, {"version", id.Version}, {"kind", id.Kind}, {"namespace", id.Namespace}, {"name", id.Name}} {
			if w[1] != "" {
				words = append(words, fmt.Sprintf("%s %q", w[0], w[1]))
			}
		}
		all = append(all, strings.Join(words, ", "))
	}
	return strings.Join(all, " or ")
}
