package render

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// What a class source has taken back must not break those who run on it: their clusters are rendered with the class as it was, and
// are warned. These are state rules; for a cluster that is not in the ledger the same is an error.

// withdrawnObjects are the objects of a class source as they were before its tiers were switched off; nil when the class was never there.
func (b *builder) withdrawnObjects(from, class string) []*manifest.Object {
	all, ok := b.in.Catalog.ClassObjectsAllOn(from)
	if !ok || !slices.ContainsFunc(all, func(o *manifest.Object) bool { return topology.IsClass(o) && o.GetName() == class }) {
		return nil
	}
	b.withdrawn[catalogClass{from, class}] = true
	return all
}

type catalogClass struct{ from, class string }

// offeredClass finds a cluster whose class its source no longer has.
func (b *builder) offeredClass(d *draft) {
	t := d.tier
	b.mu.Lock()
	withdrawn := b.withdrawn[catalogClass{t.From, t.Class}]
	b.mu.Unlock()
	if !withdrawn {
		return
	}
	at, what := d.request.At("spec", "tier"), fmt.Sprintf("tier %q is switched off in the values of class source %q", d.request.Spec.Tier, t.From)
	if d.enters("spec", "tier") {
		d.found.Add(diag.Errorf(at, "tier/disabled", "%s", what))
		return
	}
	d.found.Add(diag.Warnf(at, "class/withdrawn", "%s: without ClusterClass %s a cluster of it is not reconciled, not even to be scaled", what, t.Class).
		Hintf("switch it on again until no cluster uses it"))
}

// unconfirmed are the placeholder kinds in a tier's class.
func (b *builder) unconfirmed(tier string) diag.List {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.placeholders[tier]
}

// lintClasses finds what the values of class sources do to those who use them.
func (b *builder) lintClasses() {
	for _, key := range catalog.Sorted(b.in.Catalog.Classes) {
		found, err := b.in.Catalog.Lint(key)
		b.found.Add(found...)
		b.err = errors.Join(b.err, err)
	}
}

// StorageTiers are the storage tiers that the classes of a source let a machine choose from, over all tiers on offer.
func StorageTiers(tree fs.FS, in *Input, source string) ([]string, diag.List, error) {
	b := newBuilder(tree, in)
	var out []string
	for _, name := range catalog.Sorted(in.Catalog.Tiers) {
		t := in.Catalog.Tiers[name]
		if t.From != source || !t.On() {
			continue
		}
		class := b.tierClass(name)
		if class == nil || b.withdrawn[catalogClass{t.From, t.Class}] {
			continue
		}
		for _, v := range class.Variables() {
			if v.Path == catalog.StorageVariable {
				out = append(out, v.Choices...)
			}
		}
	}
	return out, b.found, b.err
}
