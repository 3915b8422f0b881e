package render

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/request"
)

// ForeignChanges compares a repository with what it was at a base and finds what its change does to the ledger beyond its own
// requests: an entry of a cluster whose request it does not touch, an accepted rollout that is not for a tenant to accept, and a ledger
// file that is gone. The platform team, and a change of the catalog, which is the platform team's, may touch any entry, but delete none.
func ForeignChanges(base, head fs.FS, in *Input, platform bool) (diag.List, error) {
	was, is, err := changed(base, head, in.Folders.Ledger)
	if err != nil {
		return nil, err
	}
	touched, err := touchedRequests(base, head, in.Folders.Tenants)
	if err != nil {
		return nil, err
	}
	catalogWas, catalogIs, err := changed(base, head, in.Folders.Catalog)
	if err != nil {
		return nil, err
	}
	platform = platform || len(catalogWas)+len(catalogIs) > 0
	var found diag.List
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range catalog.Sorted(names) {
		if path.Base(name) == "README.md" {
			continue
		}
		if _, there := is[name]; !there {
			found.Add(diag.Errorf(diag.Pos{File: name}, "ledger/deleted", "the change deletes a file of the ledger").
				Hintf("files of the ledger are never deleted: restore it from Git and run copyhold allocate, which marks it released"))
			continue
		}
		if platform {
			continue
		}
		for _, holder := range holders(name, was[name], is[name]) {
			if !touched[holder] {
				found.Add(diag.Errorf(diag.Pos{File: name, Line: 1}, "ledger/foreign-change", "the change edits the ledger entry of %s, but not its request", holder).
					Hintf("restore the file from Git; copyhold allocate %s/NAMESPACE writes only that tenant's, and the platform team runs check with --as platform", in.Folders.Tenants))
			}
		}
		found.Add(in.needsPlatform(name, was[name], is[name])...)
	}
	return found, nil
}

// needsPlatform finds rollouts that a change of a record accepts and that only the platform team may accept.
func (in *Input) needsPlatform(name string, was, is []byte) diag.List {
	if in.Catalog == nil || was == nil || is == nil || strings.Contains(name, "/addresses/") {
		return nil
	}
	before, bad := ledger.ParseRecord(name, was)
	after, worse := ledger.ParseRecord(name, is)
	if bad.Failed() || worse.Failed() {
		return nil // found elsewhere
	}
	i := slices.IndexFunc(in.Tenants, func(t *Tenant) bool { return t.Namespace == after.Namespace })
	if i < 0 {
		return nil
	}
	var found diag.List
	for _, c := range in.Tenants[i].Clusters {
		policy, approvers := in.Catalog.RolloutPolicy(c.Spec.Tier, c.Namespace)
		if c.Name != after.Name || policy != catalog.Acknowledge || approvers != catalog.ByPlatform {
			continue
		}
		for _, pool := range catalog.Sorted(before.Rollouts) {
			if _, asked := workersOf(c)[pool]; asked && after.Rollouts[pool] != before.Rollouts[pool] {
				found.Add(diag.Errorf(after.At("spec", "rollouts", pool), "rollout/needs-platform", "the change accepts the rollout of worker pool %s of %s, which is for the platform team to accept", pool, c).
					Hintf("somebody of the platform team approves it; CI then runs check with --as platform"))
			}
		}
	}
	return found
}

// holders are the clusters that two versions of a ledger file speak for. A released lock speaks for nobody.
func holders(name string, versions ...[]byte) []string {
	var out []string
	for _, data := range versions {
		if data == nil {
			continue
		}
		if strings.Contains(name, "/addresses/") {
			if k, found := ledger.ParseLock(name, data); !found.Failed() && !k.Released() {
				out = append(out, k.Holder)
			}
		} else if r, found := ledger.ParseRecord(name, data); !found.Failed() {
			out = append(out, r.Holder())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// changed are the files of a folder that differ between two trees, as they were and as they are.
func changed(base, head fs.FS, dir string) (was, is map[string][]byte, err error) {
	if was, err = files(base, dir); err != nil {
		return nil, nil, err
	}
	if is, err = files(head, dir); err != nil {
		return nil, nil, err
	}
	for name, data := range was {
		if now, ok := is[name]; ok && bytes.Equal(now, data) {
			delete(was, name)
			delete(is, name)
		}
	}
	return was, is, nil
}

// files reads a folder. Links are left out: what they lead to is read where it stands, or not at all.
func files(tree fs.FS, dir string) (map[string][]byte, error) {
	out := map[string][]byte{}
	err := fs.WalkDir(tree, dir, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name == dir {
			return fs.SkipAll
		}
		if err != nil || !e.Type().IsRegular() || strings.HasPrefix(path.Base(name), ".") {
			return err
		}
		data, err := fs.ReadFile(tree, name)
		out[name] = data
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", dir, err)
	}
	return out, nil
}

// touchedRequests are the clusters whose request is new, gone or other than it was, by namespace/name. A request that only moved to
// another file is not touched.
func touchedRequests(base, head fs.FS, dir string) (map[string]bool, error) {
	was, is, err := changed(base, head, dir)
	if err != nil {
		return nil, err
	}
	before, after := specs(was), specs(is)
	out := map[string]bool{}
	for name, spec := range before {
		if now, ok := after[name]; !ok || !reflect.DeepEqual(spec, now) {
			out[name] = true
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			out[name] = true
		}
	}
	return out, nil
}

// before are the requests of a tree that a change starts from.
type before struct {
	changed  map[string]bool             // files of the tenants that the change touches
	clusters map[string]*request.Cluster // those that were in them, by namespace/name
	subnets  map[string]*request.Subnet  // likewise
	platform bool                        // the change touches the catalog too
}

// of is what a request was before: itself when its file is not touched or no change is looked at, nil when it was not there.
func (b *before) of(c *request.Cluster) *request.Cluster {
	if b == nil || !b.changed[c.File()] {
		return c
	}
	return b.clusters[c.String()]
}

// touches reports whether the change brings a request, or another value of a field of it.
func (b *before) touches(c *request.Cluster, field []string) bool {
	was := b.of(c)
	return was == nil || was != c && !reflect.DeepEqual(was.Value(field...), c.Value(field...))
}

func requestsBefore(base, head fs.FS, folders Folders) (*before, error) {
	was, is, err := changed(base, head, folders.Catalog)
	if err != nil {
		return nil, err
	}
	out := &before{changed: map[string]bool{}, clusters: map[string]*request.Cluster{}, subnets: map[string]*request.Subnet{}, platform: len(was)+len(is) > 0}
	if was, is, err = changed(base, head, folders.Tenants); err != nil {
		return nil, err
	}
	for name := range is {
		out.changed[name] = true
	}
	for name, data := range was {
		if !catalog.IsYAML(name) {
			continue
		}
		r, _ := request.Parse(name, data) // what was wrong with it is past
		for _, c := range r.Clusters {
			out.clusters[c.String()] = c
		}
		for _, s := range r.Subnets {
			out.subnets[s.String()] = s
		}
	}
	return out, nil
}

func specs(files map[string][]byte) map[string]request.ClusterSpec {
	out := map[string]request.ClusterSpec{}
	for name, data := range files {
		if !catalog.IsYAML(name) {
			continue
		}
		r, _ := request.Parse(name, data) // what is wrong with it is found elsewhere
		for _, c := range r.Clusters {
			out[c.String()] = c.Spec
		}
	}
	return out
}
