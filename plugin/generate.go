package plugin

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/request"
)

// settledKinds are kinds of the platform application of which no change replaces a machine.
var settledKinds = []string{"BGPAdvertisement", "IPAddressPool", "L2Advertisement", "Namespace", "ResourceQuota", "Role", "RoleBinding", "ServiceAccount"}

// platformKinds are kinds of the platform application, of which a catalog may have none.
var platformKinds = slices.Concat([]string{"ClusterClass"}, settledKinds)

// Generate renders an application's folder of a tree, as YAML. When the list has an error there is no YAML, and there never is none
// without an error: Argo CD takes nothing for an application whose objects are all gone.
func Generate(tree fs.FS, folder string, p Parameters) ([]byte, diag.List, error) {
	in, set, found, err := build(tree, folder, p)
	if err != nil {
		return nil, found, err
	}
	found = Strict(found)
	if found.Failed() {
		return nil, found, nil
	}
	objects := slices.DeleteFunc(set.Objects(), func(o *manifest.Object) bool { return !p.prints(in, o) })
	if !slices.ContainsFunc(objects, func(o *manifest.Object) bool { return !render.IsHook(o) }) {
		found.Add(nothing(in, folder, p))
		return nil, found, nil
	}
	if set, err = manifest.New(objects...); err != nil {
		return nil, found, err
	}
	var b bytes.Buffer
	if err := set.WriteYAML(&b); err != nil {
		return nil, found, err
	}
	// Argo CD reads a stray line as part of the first object, so what goes out is read back first.
	back, err := manifest.Parse(b.Bytes())
	if err != nil {
		return nil, found, fmt.Errorf("the manifests do not read back: %w", err)
	}
	if len(back) != len(objects) {
		return nil, found, fmt.Errorf("the manifests do not read back: %d objects were written and %d read", len(objects), len(back))
	}
	return b.Bytes(), found, nil
}

// prints reports whether an object is among the kinds to print. No parameter takes the gate from what it watches over: its hooks go with
// all that machines may be made from.
func (p Parameters) prints(in *render.Input, o *manifest.Object) bool {
	if p.Kinds == nil {
		return true
	}
	if render.IsHook(o) {
		return slices.ContainsFunc(p.Kinds, func(k string) bool { return k != in.Catalog.SubnetClaim.Kind && !slices.Contains(settledKinds, k) })
	}
	return slices.Contains(p.Kinds, o.GetKind())
}

// build renders the folder, with the clusters that the parameters ask for.
func build(tree fs.FS, folder string, p Parameters) (*render.Input, manifest.Set, diag.List, error) {
	in, found, err := render.Load(tree, folder)
	if err != nil || in == nil {
		return in, manifest.Set{}, found, err
	}
	found.Add(p.unknownClusters(in)...)
	in.Narrow(func(c *request.Cluster) bool {
		return (p.Clusters == nil || slices.Contains(p.Clusters, c.Name)) && (p.Kinds == nil || slices.Contains(p.Kinds, "Cluster") || p.fromCharts(in, c))
	})
	if in.Catalog == nil {
		return in, manifest.Set{}, found, nil
	}
	set, more, err := render.Build(tree, in)
	found.Add(more...)
	if err == nil && !found.Failed() {
		found.Add(p.unknownKinds(in, set)...)
	}
	return in, set, found, err
}

// fromCharts reports whether a cluster is written out by a chart, and a kind is asked for that may be among what the chart makes.
func (p Parameters) fromCharts(in *render.Input, c *request.Cluster) bool {
	return in.Catalog != nil && in.Catalog.Tiers[c.Spec.Tier].Chart != "" && slices.ContainsFunc(p.Kinds, func(k string) bool { return k != in.Catalog.SubnetClaim.Kind })
}

// unknownClusters finds names that no request has: a cluster that is gone, or never was.
func (p Parameters) unknownClusters(in *render.Input) diag.List {
	var found diag.List
	there := clusters(in)
	for _, name := range p.Clusters {
		if slices.Contains(there, name) {
			continue
		}
		f := diag.Errorf(diag.Pos{}, "plugin/unknown-cluster", "parameter %q names cluster %q, which is not asked for in this folder%s", paramClusters, name, diag.OneOf(there))
		if near := diag.Nearest(name, there); near != "" {
			f = f.Hintf("did you mean %q?", near)
		}
		found.Add(f)
	}
	return found
}

// unknownKinds finds kinds that no application of this sort has. One that it may have, but does not have here, is no mistake: the same
// parameters may stand in the Application of every tenant.
func (p Parameters) unknownKinds(in *render.Input, set manifest.Set) diag.List {
	var known []string
	if len(in.Tenants) > 0 {
		known = slices.Concat(tenantKinds(in), kinds(set)) // what charts make, too
	}
	if in.Platform {
		known = slices.Concat(known, platformKinds, kinds(set))
	}
	var found diag.List
	for _, kind := range p.Kinds {
		if !slices.Contains(known, kind) {
			slices.Sort(known)
			found.Add(diag.Errorf(diag.Pos{}, "plugin/unknown-kind", "parameter %q names kind %q, which is not rendered here%s", paramKinds, kind, diag.OneOf(slices.Compact(known))))
		}
	}
	return found
}

// tenantKinds are the kinds of a tenant's application.
func tenantKinds(in *render.Input) []string {
	if k := in.Catalog.SubnetClaim.Kind; k != "" {
		return []string{"Cluster", k}
	}
	return []string{"Cluster"}
}

// nothing is the finding of an application without an object.
func nothing(in *render.Input, folder string, p Parameters) diag.Finding {
	if folder == "." {
		folder = "this repository"
	}
	f := diag.Errorf(diag.Pos{}, "render/nothing", "nothing to render in %s", folder)
	switch {
	case p.Clusters != nil || p.Kinds != nil:
		return f.Hintf("parameters of the Application leave out all that is there")
	case in.Platform && !in.Complete:
		return f.Hintf("an address pool with a mode, or a class source with render: true, would be rendered here")
	}
	return f.Hintf("copyhold new cluster NAMESPACE/NAME writes a first request; an application that has become empty is removed by hand")
}

// Parametrize writes, as JSON, which parameters an application's folder has. It serves a user interface: what is wrong with the folder
// is for Generate to say, and here leaves out what it spoils.
func Parametrize(tree fs.FS, folder string) ([]byte, error) {
	in, set, _, err := build(tree, folder, Parameters{})
	if err != nil || in == nil {
		return Announce(nil, nil)
	}
	have := kinds(set)
	if len(have) == 0 && in.Catalog != nil && !in.Platform { // something is wrong
		have = tenantKinds(in)
	}
	return Announce(clusters(in), have)
}

// clusters are the names of the clusters that an application may print.
func clusters(in *render.Input) []string {
	names := map[string]bool{}
	for _, t := range in.Tenants {
		for _, c := range t.Clusters {
			if in.Selected(c.File()) {
				names[c.Name] = true
			}
		}
	}
	return catalog.Sorted(names)
}

func kinds(set manifest.Set) []string {
	names := map[string]bool{}
	for _, o := range set.Objects() {
		if !render.IsHook(o) {
			names[o.GetKind()] = true
		}
	}
	return catalog.Sorted(names)
}
