package render

import (
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// compareOptions is the annotation by which Argo CD leaves an object out of account that is no longer in Git
// (its docs/user-guide/compare-options.md).
const compareOptions = "argocd.argoproj.io/compare-options"

// The waves of what a chart makes: templates before the MachineDeployments that name them, and those after the control plane, which an
// upgrade goes through first.
const (
	waveTemplate   = "0"
	waveDeployment = "2"
)

// unpruned are the sync options of templates: MachineSets still use the old one while a rollout is under way, and whoever rolls back
// finds it there.
const unpruned = "ServerSideApply=true,Prune=false"

// slots are where overlays put what they make of a draft: a Cluster, or all that a chart has made.
func (d *draft) slots(overlay string, in []*manifest.Object, slots []func(*manifest.Object)) ([]*manifest.Object, []func(*manifest.Object)) {
	if d.chart == nil {
		return append(in, d.cluster), append(slots, func(o *manifest.Object) {
			d.cluster, d.stages = o, append(d.stages, stage{overlay, []*manifest.Object{o}})
		})
	}
	if d.written != nil {
		left := slices.Clone(d.written.objects)
		d.stages = append(d.stages, stage{overlay, left})
		for i := range d.written.objects {
			in, slots = append(in, d.written.objects[i]), append(slots, func(o *manifest.Object) { d.written.objects[i], left[i] = o, o })
		}
	}
	return in, slots
}

// keptWritten finds what overlays must leave alone in what a chart has made: what was right before has to be right still.
func (b *builder) keptWritten(d *draft) diag.List {
	if d.written == nil || slices.Equal(d.written.first, d.written.objects) {
		return nil
	}
	var found, all diag.List
	for i, o := range d.written.first {
		all.Add(d.handed(o, d.written.objects[i])...)
	}
	for _, f := range append(all, b.inspect(d, d.written.objects)...) {
		if f.Severity == diag.Error {
			found.Add(diag.Errorf(b.in.Catalog.At("overlays"), "overlay/refused", "what overlays make of %s is refused: %s", d.request, f.Message))
		}
	}
	return found
}

// finishAll names templates by content and works out rollout hashes.
func (p *part) finishAll(drafts []*draft, keep func(*manifest.Object) *manifest.Object) {
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for _, d := range drafts {
		if d.written == nil {
			continue
		}
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			p.finish(d)
			if d.admitted != nil {
				d.admitted = keep(d.admitted)
				for i, o := range d.written.others {
					d.written.others[i] = keep(o)
				}
			}
		})
	}
	wg.Wait()
}

// finish makes the manifests of what a chart has made: templates named by content, what an API server would refuse found, the rollout
// hashes on the object that stands for the cluster.
func (b *builder) finish(d *draft) {
	made, err := b.assemble(d, d.written.objects)
	if err != nil {
		d.refused.Add(badSchema(b, err))
		return
	}
	var found diag.List
	for _, o := range append(slices.Clone(made.others), made.stand) {
		problems, err := b.schemas.Validate(o, nil)
		if err != nil {
			found.Add(badSchema(b, err))
		}
		for _, p := range problems {
			found.Add(diag.Errorf(d.request.At("metadata", "name"), "cluster/refused", "the API server refuses what tier %q makes of %s: %s %s", d.request.Spec.Tier, d.request, o.GetKind(), shorten(p.Words())))
		}
	}
	if d.refused.Add(found...); found.Failed() {
		return
	}
	b.images(d, made.pools)
	if !d.tenant.terms.Quota.None() {
		d.usage = b.takes(d, made.pools)
	}
	d.admitted, d.hashes, d.accepts = made.stand, made.hashes, made.hashes
	d.written.others, d.written.pools = made.others, made.pools
	b.versionStep(d)
	d.refused.Add(b.locked(d)...)
}

func badSchema(b *builder, err error) diag.Finding {
	return diag.Errorf(diag.Pos{File: b.in.Folders.Catalog + "/crds"}, "catalog/bad-schema", "%v", err).Hintf("export it again: kubectl get crd NAME -o json")
}

// assembled are the manifests of a written cluster.
type assembled struct {
	stand  *manifest.Object
	others []*manifest.Object
	pools  map[string]*topology.Pool
	hashes map[string]string
}

// assemble finishes objects that were inspected. They are not changed.
func (b *builder) assemble(d *draft, objects []*manifest.Object) (*assembled, error) {
	out := &assembled{pools: map[string]*topology.Pool{}, hashes: map[string]string{}}
	var stand *manifest.Object
	named := templatesOf(objects)
	for _, o := range objects {
		switch {
		case named[o]: // there by its MachineDeployment
		case standsForCluster(o):
			stand = manifest.Bare(o)
		case topology.IsDeployment(o):
			md := manifest.Bare(o)
			pool := strings.TrimPrefix(o.GetName(), d.request.Name+"-")
			var parts [2]*manifest.Object
			for n, path := range [][]string{infrastructureRef, bootstrapRef} {
				ref := lookup(md.Object, path).(map[string]any)
				t := manifest.Bare(find(objects, ref))
				digest, err := b.schemas.SpecDigest(t)
				if err != nil {
					return nil, err
				}
				// Named after the MachineDeployment, not as the chart has it: a new name is a rollout, and the content alone decides on one.
				t.SetName(md.GetName() + "-" + digest)
				ref["name"] = t.GetName()
				b.mark(d, t, waveTemplate, unpruned)
				parts[n] = t
			}
			b.mark(d, md, waveDeployment, guarded)
			p, problems := topology.WrittenPool(pool, md, parts[0], parts[1])
			if len(problems) > 0 { // it was inspected
				return nil, errors.New(problems[0].Words())
			}
			hash, err := p.Hash(b.schemas)
			if err != nil {
				return nil, err
			}
			out.pools[pool], out.hashes[pool] = p, hash
			out.others = append(out.others, md, parts[0], parts[1])
		default:
			o = manifest.Bare(o)
			b.mark(d, o, waveCluster, guarded)
			out.others = append(out.others, o)
		}
	}
	b.mark(d, stand, waveCluster, guarded)
	annotations := stand.GetAnnotations()
	maps.DeleteFunc(annotations, func(k, _ string) bool { return strings.HasPrefix(k, topology.AnnotationPrefix) }) // a chart's or overlay's word for it is none
	for pool, hash := range out.hashes {
		annotations[topology.AnnotationPrefix+pool] = hash
	}
	stand.SetAnnotations(annotations)
	out.stand = stand
	return out, nil
}

// templatesOf are the objects that MachineDeployments name.
func templatesOf(objects []*manifest.Object) map[*manifest.Object]bool {
	out := map[*manifest.Object]bool{}
	for _, o := range objects {
		for _, path := range [][]string{infrastructureRef, bootstrapRef} {
			if ref, ok := lookup(o.Object, path).(map[string]any); ok && topology.IsDeployment(o) {
				out[find(objects, ref)] = true
			}
		}
	}
	return out
}

// mark gives an object the labels and sync options of what is rendered for a tenant.
func (b *builder) mark(d *draft, o *manifest.Object, wave, options string) {
	l := map[string]string{}
	maps.Copy(l, o.GetLabels())
	for k, v := range labels(d.request.Name, d.request.Namespace) {
		l[k] = v.(string)
	}
	o.SetLabels(l)
	a := map[string]string{}
	maps.Copy(a, o.GetAnnotations())
	a[syncWave], a[syncOptions] = wave, options
	if options == unpruned {
		a[compareOptions] = "IgnoreExtraneous"
	}
	o.SetAnnotations(a)
}

// standInAddress is in place of an address where only machines are looked at.
const standInAddress = "192.0.2.1"

// weighWritten is weigh for a cluster that is written out.
func (p *part) weighWritten(d *draft) {
	x := *d
	x.found = nil
	if x.address == "" && x.takesAddress() { // the ledger is about to give it one
		x.address, x.direct = standInAddress, maps.Clone(d.direct)
		x.direct["address"] = standInAddress
	}
	p.write(&x)
	var pools map[string]*topology.Pool
	if x.written != nil { // what is wrong is found when it is rendered
		if made, err := p.assemble(&x, x.written.objects); err == nil {
			pools = made.pools
			p.images(d, pools)
		}
	}
	d.usage = p.takes(d, pools)
}

// fedAt is the place that a value of the chart comes from: the request, or the ledger's record.
func (d *draft) fedAt(field string) diag.Pos {
	if !d.request.Has("spec", field) && d.record != nil && (field == "address" || field == "serverAddress") {
		return d.record.At("spec", field)
	}
	if d.request.Has("spec", field) {
		return d.request.At("spec", field)
	}
	return d.request.At("metadata", "name")
}
