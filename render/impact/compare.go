package impact

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/request"
	"copyhold.dev/copyhold/render/topology"
)

// Compare says what happens to running clusters when a repository goes from one state to another. Both fleets must have been asked for
// the same part of it.
func Compare(was, is *render.Fleet) (*Report, error) {
	c := &comparer{was: was, is: is, pools: map[poolPair]*poolAnswer{}}
	r := &Report{Version: FormatVersion, Clusters: []*Diff{}, Objects: []Object{}, Classes: []Class{}, Notes: []string{}}
	names := maps.Clone(was.Clusters)
	maps.Copy(names, is.Clusters)
	sorted := catalog.Sorted(names)
	diffs := make([]*Diff, len(sorted))
	errs := make([]error, len(sorted))
	if err := c.updateClasses(); err != nil {
		return nil, err
	}
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i, name := range sorted {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			diffs[i], errs[i] = c.cluster(was.Clusters[name], is.Clusters[name])
		})
	}
	wg.Wait()
	for i := range diffs {
		switch {
		case errs[i] != nil:
			return nil, fmt.Errorf("comparing %s: %w", sorted[i], errs[i])
		case diffs[i] == nil:
			r.Same++
		default:
			r.Clusters = append(r.Clusters, diffs[i])
		}
	}
	kept := ""
	if slices.ContainsFunc(is.Found, func(f diag.Finding) bool {
		return f.Severity == diag.Error && !strings.HasPrefix(f.Name, "rollout/")
	}) {
		kept = "it cannot be rendered any more; what runs stays as it is"
	}
	var err error
	if was.Unreadable() {
		r.Notes = append(c.notes(r), "the catalog of the base cannot be read: nothing is compared with what it was, and what is gone is not listed")
		return r, nil
	}
	if r.Objects, err = Objects(was.Objects, is.Objects, is.Addresses, kept); err != nil {
		return nil, err
	}
	c.subnets(r.Objects)
	r.Classes = append(r.Classes, c.reach(r)...)
	r.Notes = c.notes(r)
	return r, nil
}

type comparer struct {
	was, is *render.Fleet

	refused map[topology.Key]refusal // changes of classes that are refused, whole or in part

	mu    sync.Mutex
	pools map[poolPair]*poolAnswer
}

// cluster compares one cluster; nil when nothing happens to it.
func (c *comparer) cluster(was, is *render.Cluster) (*Diff, error) {
	switch {
	case was == nil:
		return c.created(is), nil
	case is == nil:
		return c.deleted(was), nil
	}
	d := c.diff(is)
	if was.Chart != nil || is.Chart != nil {
		return c.written(d, was, is)
	}
	if is.Class != nil && was.Class != nil && was.Class.Digest() != is.Class.Digest() {
		if r, ok := c.refused[is.Class.Key()]; ok {
			return d, c.beside(d, r, was, is)
		}
	}
	return c.classed(d, was, is)
}

// classed compares a cluster whose tier has a class, as it was and is.
func (c *comparer) classed(d *Diff, was, is *render.Cluster) (*Diff, error) {
	switch {
	case is.Manifest == nil || is.Hashes == nil:
		return d, c.stuck(d, was, is)
	case was.Manifest == nil:
		d.Changes = append(d.Changes, Change{Action: Unknown, Words: "the base cannot be rendered for it, so nothing can be compared: " + first(was.Found)})
		return d, nil
	}
	if f, ok := withdrawn(was, is); ok {
		d.Changes = append(d.Changes, Change{Action: Frozen, Words: f})
		return d, nil
	}
	same := was.Class.Digest() == is.Class.Digest()
	if same && reflect.DeepEqual(was.Manifest.Object, is.Manifest.Object) {
		return nil, nil
	}
	if !reflect.DeepEqual(was.Manifest.Object["spec"], is.Manifest.Object["spec"]) {
		problems, err := topology.Update(was.Class, is.Class, was.Manifest, is.Manifest)
		if err != nil {
			return nil, err
		}
		if len(problems) > 0 {
			d.Changes = append(d.Changes, Change{Action: Rejected, Words: "Cluster API's webhook refuses the change: " + words(problems), Causes: c.causesOf(was, is, problems)})
			_, err = c.classAlone(d, was, is)
			return d, err
		}
	}
	if err := c.judge(d, was, is); err != nil {
		return nil, err
	}
	if len(d.Changes) == 0 {
		return nil, nil
	}
	return d, nil
}

// withdrawn finds a running cluster that is rendered with its class as it was, since the class has taken back what it uses: in the
// management cluster it has not.
func withdrawn(was, is *render.Cluster) (string, bool) {
	named := func(found diag.List, name string) int {
		return slices.IndexFunc(found, func(f diag.Finding) bool { return f.Name == name && f.Severity == diag.Warning })
	}
	for _, name := range []string{"storage/tier-removed", "class/withdrawn", "class/narrowed", "ledger/frozen"} {
		if i := named(is.Found, name); i >= 0 && named(was.Found, name) < 0 {
			return is.Found[i].Message, true
		}
	}
	return "", false
}

// judge compares two states that are both right.
func (c *comparer) judge(d *Diff, was, is *render.Cluster) error {
	if topology.HasMachinePools(was.Manifest) || topology.HasMachinePools(is.Manifest) {
		d.Changes = append(d.Changes, Change{Action: Unknown, Words: "it has worker pools that are MachinePools, which are not judged", Policy: is.RolloutPolicy().String()})
	}
	c.address(d, was, is)
	c.paused(d, was, is)
	c.network(d, was, is)
	if err := c.controlPlane(d, was, is); err != nil {
		return err
	}
	if err := c.workers(d, was, is); err != nil {
		return err
	}
	if len(d.Changes) == 0 && !sameButHashes(was.Manifest, is.Manifest) {
		d.Changes = append(d.Changes, Change{Action: InPlace, Words: "the Cluster itself changes, nothing that its control plane or its machines are made from", Causes: c.clusterCauses(was, is)})
	}
	return nil
}

// sameButHashes compares two Clusters without the annotations that carry rollout hashes.
func sameButHashes(a, b *manifest.Object) bool {
	strip := func(o *manifest.Object) any {
		o = o.DeepCopy()
		annotations := o.GetAnnotations()
		maps.DeleteFunc(annotations, func(k, _ string) bool { return strings.HasPrefix(k, topology.AnnotationPrefix) })
		o.SetAnnotations(annotations)
		return o.Object
	}
	return reflect.DeepEqual(strip(a), strip(b))
}

func (c *comparer) diff(of *render.Cluster) *Diff {
	d := &Diff{Namespace: of.Request.Namespace, Name: of.Request.Name, Tier: of.Request.Spec.Tier, at: of.Request.At("metadata", "name")}
	if of.Chart != nil {
		d.Class, d.Digest = of.Chart.Key, of.Chart.Digest
	}
	if of.Class != nil {
		d.Class, d.Digest = of.Class.Key().String(), of.Class.Digest()
	}
	return d
}

func (c *comparer) created(is *render.Cluster) *Diff {
	d := c.diff(is)
	if is.Manifest == nil || is.Hashes == nil {
		d.Changes = append(d.Changes, Change{Action: Rejected, Words: "the new cluster cannot be rendered: " + first(is.Found)})
		return d
	}
	switch file, released := c.was.Entered(is.Request); {
	case released != "":
		d.Changes = returns(is, fmt.Sprintf("it was released on %s (%s), and runs until somebody has confirmed its prune: whether it still does cannot be told from here", released, file))
	case file != "":
		d.Changes = append(d.Changes, Change{Action: Unknown, Machines: all(is), Words: "the base has it in its ledger (" + file + ") and no request for it that can be read: whether it runs, and as what, cannot be told from here"})
	case c.was.Unreadable():
		d.Changes = append(d.Changes, Change{Action: Unknown, Machines: all(is), Words: "the catalog of the base cannot be read: whether it runs, and as what, cannot be told from here"})
	default:
		d.Changes = append(d.Changes, Change{Action: Create, Machines: all(is)})
	}
	return d
}

// returns is what is said of a cluster under a name that the ledger knows from before: of each pool, since each has a hash to accept.
func returns(is *render.Cluster, words string) []Change {
	var out []Change
	for _, pool := range catalog.Sorted(is.Accepts) {
		m := poolMachines(is, pool)
		out = append(out, heldTo(is, Change{Action: Unknown, Pool: pool, Machines: &m, Words: words}))
	}
	if len(out) == 0 {
		out = append(out, Change{Action: Unknown, Machines: all(is), Words: words})
	}
	return out
}

// heldTo adds to a change of a pool how it stands with the lock on rollouts.
func heldTo(is *render.Cluster, c Change) Change {
	c.Hash, c.Policy = is.Accepts[c.Pool], is.RolloutPolicy().String()
	c.Acknowledged = c.Hash != "" && is.Record != nil && is.Record.Rollouts[c.Pool] == c.Hash
	return c
}

func (c *comparer) deleted(was *render.Cluster) *Diff {
	d := c.diff(was)
	d.at = diag.Pos{}
	words := "its request is gone: control plane and machines go once somebody confirms the prune"
	dir := path.Dir(was.Request.File()) + "/"
	for _, f := range c.is.Found.Sorted() {
		if f.Severity == diag.Error && strings.HasPrefix(f.Pos.File, dir) {
			words = "no request for it can be read any more (" + f.String() + "): while that is so, nothing is rendered and what runs stays; if the request is gone, control plane and machines go with it"
			break
		}
	}
	d.Changes = append(d.Changes, Change{Action: Delete, Machines: all(was), Words: words})
	return d
}

// updateClasses asks Cluster API's ClusterClass webhook about each class that changes, with the clusters that use it, and the API server
// about its templates.
func (c *comparer) updateClasses() error {
	c.refused = map[topology.Key]refusal{}
	type pair struct{ was, is *topology.Class }
	pairs := map[topology.Key]pair{}
	clusters := map[topology.Key][]*manifest.Object{}
	for name, was := range c.was.Clusters {
		is := c.is.Clusters[name]
		if is == nil || was.Class == nil || is.Class == nil || was.Manifest == nil || was.Class.Key() != is.Class.Key() || was.Class.Digest() == is.Class.Digest() {
			continue
		}
		pairs[is.Class.Key()] = pair{was.Class, is.Class}
		clusters[is.Class.Key()] = append(clusters[is.Class.Key()], was.Manifest)
	}
	for key, p := range pairs {
		r, err := topology.UpdateClass(p.was, p.is, clusters[key], c.is.Schemas)
		if err != nil {
			return err
		}
		var why diag.List
		if len(r.Class) > 0 {
			why.Add(diag.Errorf(diag.Pos{}, "class/refused", "Cluster API's webhook refuses the change of ClusterClass %s: %s", key, words(r.Class)))
		}
		if len(r.Templates) > 0 {
			why.Add(diag.Errorf(diag.Pos{}, "template/refused", "the API server refuses the change of a template of ClusterClass %s: %s", key, words(r.Templates)))
		}
		if len(why) > 0 {
			c.refused[key] = refusal{why, r.Left}
		}
	}
	return nil
}

// address finds a changed endpoint or changed certificate names.
func (c *comparer) address(d *Diff, was, is *render.Cluster) {
	for _, f := range []struct{ field, words string }{
		{"address", "the address of the control plane changes: kubeconfigs and certificates with the old one break"},
		{"serverAddress", "the address that workers join by changes"},
		{"publicNames", "the names in the API server's certificate change: clients that use one that is gone break"},
		{"serviceType", anotherWay},
	} {
		old, now := was.Fed(f.field), is.Fed(f.field)
		if topology.Equal(old, now) {
			continue
		}
		if f.field == "serviceType" && (is.Made != nil || !topology.Equal(was.Fed("address"), is.Fed("address"))) { // of what a chart makes the objects are compared; or it is said
			continue
		}
		pos := is.FedAt(f.field)
		d.Changes = append(d.Changes, Change{Action: Address, Words: f.words, Causes: []Cause{at(pos, f.field, old, now)}})
	}
}

// paused tells of a cluster that Cluster API leaves alone, or no longer does. Only an overlay pauses.
func (c *comparer) paused(d *Diff, was, is *render.Cluster) {
	of := func(o *manifest.Object) any {
		spec, _ := o.Object["spec"].(map[string]any)
		return spec["paused"] == true
	}
	before, after := of(was.Manifest) == true, of(is.Manifest) == true
	var causes []Cause
	if before != after {
		causes = c.overlayCauses(was, is, of, Cause{Field: "paused", Before: before, After: after})
	}
	switch {
	case before && !after:
		d.Changes = append(d.Changes, Change{Action: Unknown, Machines: all(is), Words: "it is no longer paused: all that was changed meanwhile takes effect now, rollouts too", Causes: causes, Policy: is.RolloutPolicy().String()})
	case after:
		d.Changes = append(d.Changes, Change{Action: InPlace, Words: "it is paused: Cluster API does nothing of what is said here until that is taken away", Causes: causes})
	}
}

// all are the machines of all pools of a cluster.
func all(c *render.Cluster) *Machines {
	out := Machines{}
	if c.Made != nil {
		for name := range c.Made.Pools {
			out = out.plus(poolMachines(c, name))
		}
		return &out
	}
	if c.Chart == nil && c.Manifest != nil {
		for _, name := range topology.PoolNames(c.Manifest) {
			out = out.plus(poolMachines(c, name))
		}
		return &out
	}
	for _, p := range c.Request.Spec.Workers {
		out = out.plus(asked(p))
	}
	return &out
}

// poolMachines are the machines of one pool of a cluster that is rendered.
func poolMachines(c *render.Cluster, pool string) Machines {
	if c.Made != nil {
		return machinesOf(c, pool)
	}
	return machines(topology.PoolOf(c.Manifest, pool))
}

func asked(p request.Pool) Machines {
	switch {
	case p.Min != nil && p.Max != nil:
		return Machines{int(*p.Min), int(*p.Max)}
	case p.Replicas != nil:
		return Machines{int(*p.Replicas), int(*p.Replicas)}
	}
	return Machines{1, 1}
}

func first(found diag.List) string {
	for _, f := range found.Sorted() {
		if f.Severity == diag.Error {
			return strings.TrimPrefix(f.String(), "copyhold: ")
		}
	}
	return "nothing says why"
}

func words(problems []topology.Problem) string {
	var out []string
	for _, p := range problems {
		if w := p.Words(); !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return strings.Join(out, "; ")
}
