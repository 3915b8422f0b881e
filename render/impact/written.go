package impact

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// written compares two states of a cluster of which one at least is written out by a chart; nil when nothing happens to it.
func (c *comparer) written(d *Diff, was, is *render.Cluster) (*Diff, error) {
	switch {
	case is.Manifest == nil || is.Hashes == nil:
		return d, c.stuck(d, was, is)
	case was.Manifest == nil:
		d.Changes = append(d.Changes, Change{Action: Unknown, Words: "the base cannot be rendered for it, so nothing can be compared: " + first(was.Found)})
		return d, nil
	}
	if other := c.changesShape(was, is); other.Action != "" {
		d.Changes = append(d.Changes, other)
		return d, nil
	}
	a, b := objectsOf(was), objectsOf(is)
	if maps.EqualFunc(a, b, func(x, y *manifest.Object) bool { return reflect.DeepEqual(x.Object, y.Object) }) {
		return nil, nil
	}
	if is.Manifest.GetKind() == "Cluster" && !topology.Equal(was.Manifest.Object["spec"], is.Manifest.Object["spec"]) {
		if problems := topology.AdmitWritten(is.Manifest, was.Manifest); len(problems) > 0 {
			d.Changes = append(d.Changes, Change{Action: Rejected, Words: "Cluster API's webhook refuses the change: " + words(problems)})
			return d, nil
		}
	}
	if why := render.KamajiRefuses(was.Request.Spec.Version, is.Request.Spec.Version); why != "" {
		at := is.Request.At("spec", "version")
		causes := []Cause{{At: at.String(), pos: at, Field: "version", Before: was.Request.Spec.Version, After: is.Request.Spec.Version}}
		d.Changes = append(d.Changes, Change{Action: Rejected, Words: why, Causes: causes})
		for _, name := range catalog.Sorted(was.Made.Pools) { // no API server refuses their part
			if is.Made.Pools[name] != nil {
				m := machinesOf(was, name)
				d.Changes = append(d.Changes, heldTo(is, Change{Action: Unknown, Pool: name, Machines: &m, Causes: causes,
					Words: "the sync stops before it where Argo CD has a health check for the control plane; elsewhere its machines are replaced by such of " + is.Request.Spec.Version}))
			}
		}
		return d, nil
	}
	c.paused(d, was, is)
	c.address(d, was, is)
	c.endpoint(d, was, is)
	c.network(d, was, is)
	if err := c.writtenObjects(d, was, is, a, b); err != nil {
		return nil, err
	}
	if err := c.writtenPools(d, was, is); err != nil {
		return nil, err
	}
	if len(d.Changes) == 0 {
		d.Changes = append(d.Changes, Change{Action: InPlace, Words: "labels, annotations or data of its objects, nothing that its control plane or its machines are made from",
			Causes: c.writtenCauses(was, is, func(w *render.Made) any { return w.Objects })})
	}
	return d, nil
}

// changesShape finds a running cluster that would become another one: a change of its tier, or of the chart.
func (c *comparer) changesShape(was, is *render.Cluster) Change {
	tier := at(is.Request.At("spec", "tier"), "tier", was.Request.Spec.Tier, is.Request.Spec.Tier)
	if (was.Chart == nil) != (is.Chart == nil) {
		return Change{Action: Rejected, Causes: []Cause{tier}, Words: "one tier has a ClusterClass and the other a chart: Cluster API's webhook lets no running cluster go from one to the other"}
	}
	if was.Manifest.GetKind() != is.Manifest.GetKind() {
		return Change{Action: Delete, Machines: all(was), Causes: []Cause{c.chartCause(was, is)},
			Words: fmt.Sprintf("its %s goes with the control plane, and a %s comes: nothing of the cluster is kept", was.Manifest.GetKind(), is.Manifest.GetKind())}
	}
	after := objectsOf(is)
	gone := func(what func(manifest.ID) bool) (manifest.ID, bool) {
		for _, o := range was.Made.Objects {
			if id := manifest.IDOf(o); what(id) && after[id] == nil {
				return id, true
			}
		}
		return manifest.ID{}, false
	}
	if id, ok := gone(func(id manifest.ID) bool { return id.Kind == "KamajiControlPlane" }); ok {
		return Change{Action: Delete, Machines: all(was), Causes: []Cause{c.chartCause(was, is)},
			Words: fmt.Sprintf("its %s %s gives way to one of another name or kind: the control plane goes with all that is in it, once somebody confirms the prune, and the machines are none of the new one's", id.Kind, id.Name)}
	}
	if id, ok := gone(func(id manifest.ID) bool {
		return strings.HasPrefix(id.Group, "infrastructure.") && strings.HasSuffix(id.Kind, "Cluster")
	}); ok {
		change := Change{Action: Replace, Machines: all(was), Causes: []Cause{c.chartCause(was, is)},
			Words: fmt.Sprintf("its %s %s gives way to one of another name or kind: all machines go, and others come", id.Kind, id.Name)}
		if maps.Equal(was.Hashes, is.Hashes) { // no lock is on it
			change.Policy = is.RolloutPolicy().String()
		}
		return change
	}
	return Change{}
}

// objectsOf are all manifests of a written cluster.
func objectsOf(c *render.Cluster) map[manifest.ID]*manifest.Object {
	out := map[manifest.ID]*manifest.Object{}
	for _, o := range c.Made.Objects {
		out[manifest.IDOf(o)] = o
	}
	out[manifest.IDOf(c.Manifest)] = c.Manifest
	return out
}

func causeOf(v render.ValueChange) Cause {
	return Cause{At: v.At.String(), pos: v.At, Field: v.Field, Before: v.Before, After: v.After, Class: v.At.File == ""}
}

// writtenObjects compares what is neither a machine template nor a MachineDeployment.
func (c *comparer) writtenObjects(d *Diff, was, is *render.Cluster, a, b map[manifest.ID]*manifest.Object) error {
	ids := maps.Clone(a)
	maps.Copy(ids, b)
	ofPools := map[manifest.ID]bool{}
	for _, c := range []*render.Cluster{was, is} {
		for _, p := range c.Made.Pools {
			ofPools[manifest.IDOf(p.Infrastructure)], ofPools[manifest.IDOf(p.Bootstrap)] = true, true
		}
	}
	sorted := slices.SortedFunc(maps.Keys(ids), func(x, y manifest.ID) int { return compareText(x.String(), y.String()) })
	for _, id := range sorted {
		before, after := a[id], b[id]
		if ofPools[id] || id.Kind == "MachineDeployment" {
			continue
		}
		switch {
		case before == nil:
			d.Changes = append(d.Changes, Change{Action: InPlace, Words: id.Kind + " " + id.Name + " comes"})
			continue
		case after == nil:
			d.Changes = append(d.Changes, Change{Action: InPlace, Words: id.Kind + " " + id.Name + " goes once somebody confirms the prune"})
			continue
		}
		if id.Kind == "Cluster" && sameButPaused(before, after) { // a pause is said by itself
			continue
		}
		if change, found := c.immutable(was, is, before, after); found {
			d.Changes = append(d.Changes, change)
			continue
		}
		if change, found := c.appliedOnce(was, is, before, after); found {
			d.Changes = append(d.Changes, change)
			continue
		}
		action := InPlace
		if id.Kind == "KamajiControlPlane" || id.Kind == "TenantControlPlane" {
			action = ControlPlane
		}
		change, err := c.object(before, after, action)
		if err != nil {
			return err
		}
		switch {
		case change.Action == "":
			continue
		case change.Action == Frozen:
			change.Action, change.Words = Rejected, strings.NewReplacer("what Cluster API makes of it", "the change", "every later reconcile of the cluster fails", "the sync fails, and what runs stays as it is").Replace(change.Words)
		case change.Action == InPlace && len(readers(is, after)) > 0 && id.Group != "ipam.cluster.x-k8s.io": // of an address pool more is read each time
			change.Action, change.Policy = Unknown, is.RolloutPolicy().String()
			change.Words = join(fmt.Sprintf("%s %s is edited under its name, and machines of %s are made with it: whether those that run take the edit cannot be told from here", id.Kind, id.Name, strings.Join(readers(is, after), ", ")), change.Words)
		case id.Kind == "MetalStackFirewallTemplate": // its own definition says so of its fields
			change.Action, change.Policy = Unknown, is.RolloutPolicy().String()
			change.Words = join(id.Kind+" "+id.Name+" changes: its provider may make the firewall anew, and machines have no way out meanwhile", change.Words)
		case change.Action == InPlace:
			change.Words = join(id.Kind+" "+id.Name, change.Words)
		case was.Request.Spec.Version != is.Request.Spec.Version && len(is.Hashes) > 0:
			change.Words = join(change.Words, "after it the worker pools: "+strings.Join(catalog.Sorted(is.Hashes), ", "))
		}
		change.Causes = c.writtenCauses(was, is, inObject(id, func(o *manifest.Object) any { return o.Object["spec"] }))
		d.Changes = append(d.Changes, change)
	}
	return nil
}

func sameButPaused(a, b *manifest.Object) bool {
	x, _ := a.Object["spec"].(map[string]any)
	y, _ := b.Object["spec"].(map[string]any)
	return equalBut("paused", x, y)
}

// writtenCauses finds which values of the chart make a part of a cluster other than it was, by rendering the cluster as it was with one
// change at a time.
func (c *comparer) writtenCauses(was, is *render.Cluster, part func(*render.Made) any) []Cause {
	if name := c.is.OverlaidMade(was, is, part); name != "" {
		return []Cause{c.overlayCause(name, Cause{})}
	}
	base := c.was.Rewritten(was, was)
	if base == nil {
		return nil
	}
	differs := func(w *render.Made) bool { return w != nil && !topology.Equal(part(base), part(w)) }
	var out []Cause
	if was.Chart.Digest != is.Chart.Digest && differs(c.was.Rewritten(was, is)) {
		out = append(out, c.chartCause(was, is))
	}
	changes := was.ValueChanges(is)
	for _, v := range changes {
		if differs(c.was.Rewritten(was, was, v)) {
			out = append(out, causeOf(v))
		}
	}
	if len(out) == 0 { // only some of it together, or an overlay
		if was.Chart.Digest != is.Chart.Digest {
			out = append(out, c.chartCause(was, is))
		}
		for _, v := range changes {
			out = append(out, causeOf(v))
		}
	}
	if len(out) == 0 {
		out = append(out, Cause{Field: "overlays of the catalog, or schemas in it", Class: true}) // more than one overlay, or what they are given
	}
	return out
}

// chartCause is why a cluster has another chart: its request names another tier, or the tier another chart, or the chart is edited.
func (c *comparer) chartCause(was, is *render.Cluster) Cause {
	if a, b := was.Request.Spec.Tier, is.Request.Spec.Tier; a != b {
		return at(is.Request.At("spec", "tier"), "tier", a, b)
	}
	tier := is.Request.Spec.Tier
	if a, b := was.Chart.Folder, is.Chart.Folder; a != b {
		return at(c.is.Input.Catalog.At("tiers", tier, "chart"), "chart of tier "+tier, a, b)
	}
	return Cause{Field: "chart " + is.Chart.Folder, Class: true}
}

// deploymentOf is the MachineDeployment of a worker pool.
func deploymentOf(c *render.Cluster, pool string) *manifest.Object {
	for _, o := range c.Made.Objects {
		if topology.IsDeployment(o) && o.GetName() == c.Request.Name+"-"+pool {
			return o
		}
	}
	return nil
}

// machinesOf is how many machines a worker pool of a written cluster has.
func machinesOf(c *render.Cluster, pool string) Machines {
	return machines(topology.DeploymentMachines(deploymentOf(c, pool)))
}

// writtenPools compares worker pools.
func (c *comparer) writtenPools(d *Diff, was, is *render.Cluster) error {
	before, after := was.Made.Pools, is.Made.Pools
	var fresh []string
	left := slices.ContainsFunc(catalog.Sorted(before), func(name string) bool { return after[name] == nil })
	for _, name := range catalog.Sorted(after) {
		if before[name] == nil {
			fresh = append(fresh, name)
		}
	}
	for _, name := range catalog.Sorted(before) {
		if after[name] == nil && len(fresh) > 0 { // to Cluster API these are two pools
			m := machinesOf(was, name)
			d.Changes = append(d.Changes, replaced(is, name, fresh[0], m))
			fresh = fresh[1:]
			continue
		}
		if after[name] == nil {
			m := machinesOf(was, name)
			at := is.Request.KeyAt("spec", "workers")
			d.Changes = append(d.Changes, Change{Action: Delete, Pool: name, Machines: &m, Words: "the pool is gone: its machines are drained and deleted once somebody confirms the prune",
				Causes: []Cause{{At: at.String(), pos: at, Field: "workers." + name, Before: "there"}}})
			continue
		}
		changes, err := c.writtenPool(was, is, name)
		if err != nil {
			return err
		}
		d.Changes = append(d.Changes, changes...)
	}
	for _, name := range fresh {
		d.Changes = append(d.Changes, comes(is, name, machinesOf(is, name), left))
	}
	return nil
}

// writtenPool compares a worker pool that is there on both sides: by its hash, and by the rule of the MachineDeployment's own controller.
func (c *comparer) writtenPool(was, is *render.Cluster, name string) ([]Change, error) {
	before, after := was.Made.Pools[name], is.Made.Pools[name]
	m, n := machinesOf(was, name), machinesOf(is, name)
	why, onDelete, err := topology.Redeployed(deploymentOf(was, name), deploymentOf(is, name))
	if err != nil {
		return nil, err
	}
	var out []Change
	if is.Hashes[name] != was.Hashes[name] || len(why) > 0 {
		differences, err := before.Differences(after, c.is.Schemas)
		if err != nil {
			return nil, err
		}
		change := heldTo(is, Change{Action: Rollout, Pool: name, Machines: &m, Differences: plain(differences)})
		if is.Hashes[name] == was.Hashes[name] { // by what is in no hash
			change.Hash, change.Acknowledged = "", false
		}
		switch {
		case onDelete:
			change.Action, change.Words = OnDelete, "the pool's strategy is OnDelete: a machine takes the new form when somebody deletes it"
		case onlyAfterGone(differences):
			change.Action, change.Words = InPlace, "rollout.after is taken away: nothing is replaced for that"
		case len(differences) == 0:
			change.Words = strings.Join(why, "; ")
		}
		if second := secondRollout(before, after); second != "" && change.Action == Rollout {
			change.Words = join(change.Words, second)
		}
		if after.Paused() {
			change.Words = join(change.Words, "its MachineDeployment is paused: this waits until that is taken away")
		}
		change.Causes = c.writtenCauses(was, is, c.hashOf(name))
		out = append(out, change)
	}
	if before.Loses(after) {
		out = append(out, Change{Action: Replace, Pool: name, Machines: &m, Policy: is.RolloutPolicy().String(), Causes: c.writtenCauses(was, is, inPool(name, func(p *topology.Pool) any { return p.Deployment.Spec.Selector })),
			Words: "its MachineDeployment no longer selects the machines there are: others come beside them, and those stay until somebody deletes them"})
	}
	if before.OnDelete() && !after.OnDelete() && len(out) == 0 {
		out = append(out, strategyEnds(is, name, m, c.writtenCauses(was, is, settingsOf(name))))
	}
	if before.Paused() && !after.Paused() {
		out = append(out, Change{Action: Unknown, Pool: name, Machines: &m, Policy: is.RolloutPolicy().String(), Causes: c.writtenCauses(was, is, inPool(name, func(p *topology.Pool) any { return p.Paused() })),
			Words: "its MachineDeployment is no longer paused: all that was changed meanwhile takes effect now, rollouts too"})
	}
	if skew := imageSkew(before, after); skew != "" {
		out = append(out, Change{Action: ImageSkew, Pool: name, Machines: &m, Words: skew})
	}
	at := is.Request.At("spec", "workers", name)
	cause := Cause{At: at.String(), pos: at, Field: "workers." + name}
	if m != n {
		cause.Before, cause.After = m.String(), n.String()
		if overlay := c.is.OverlaidMade(was, is, inObject(manifest.IDOf(deploymentOf(is, name)), func(o *manifest.Object) any { return machines(topology.DeploymentMachines(o)) })); overlay != "" {
			cause = c.overlayCause(overlay, cause)
		}
		out = append(out, Change{Action: Scale, Pool: name, Machines: &n, Words: "from " + m.String() + " to " + n.String(), Causes: []Cause{cause}})
	} else if len(out) == 0 && !topology.Equal(before.Settings(), after.Settings()) {
		causes := c.writtenCauses(was, is, settingsOf(name))
		if len(causes) == 0 {
			causes = []Cause{cause}
		}
		out = append(out, Change{Action: InPlace, Pool: name, Words: "labels, annotations, timeouts or rollout settings of the pool", Causes: causes[:1]})
	}
	return out, nil
}

// inPool is a part of a worker pool, wherever there is one of that name.
func inPool(name string, part func(*topology.Pool) any) func(*render.Made) any {
	return func(w *render.Made) any {
		if p := w.Pools[name]; p != nil {
			return part(p)
		}
		return nil
	}
}

func settingsOf(pool string) func(*render.Made) any {
	return inPool(pool, func(p *topology.Pool) any { return p.Settings() })
}

// hashOf is the rollout hash of a worker pool.
func (c *comparer) hashOf(pool string) func(*render.Made) any {
	return inPool(pool, func(p *topology.Pool) any {
		h, err := p.Hash(c.is.Schemas)
		if err != nil {
			return nil
		}
		return h
	})
}
