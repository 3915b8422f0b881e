// Package render turns a tenants repository into manifests. It is a pure function of a file tree: no clock, environment, network,
// Git or randomness; the same commit gives the same bytes on every machine.
//
// Render does it all: Load reads the tree, Build makes the manifests. What is wrong with the files is a diag.List; an error means
// that the tree could not be read.
package render

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/request"
	"copyhold.dev/copyhold/render/strict"
)

// RootFile marks the root of a tenants repository.
const RootFile = "copyhold.yaml"

// Folders are the three folders of a tenants repository, relative to its root.
type Folders struct {
	Catalog string `json:"catalog,omitempty"`
	Tenants string `json:"tenants,omitempty"`
	Ledger  string `json:"ledger,omitempty"`
}

type rootFile struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Folders    Folders `json:"folders,omitempty"`
}

// Input is what a tree holds, read and checked part by part, ready to be built.
type Input struct {
	Folders
	Catalog   *catalog.Catalog // nil when it has an error
	Tenants   []*Tenant        // by namespace
	Platform  bool             // the platform application is asked for
	Complete  bool             // every tenant is read
	selected  []string         // paths asked for
	misplaced []string         // files beside the tenants' folders
	addresses bool             // the address manifests of these tenants, without the rest of the platform's
	narrowed  func(*request.Cluster) bool

	base *before                 // the requests before the change that is looked at; nil when none is
	was  func() (*before, error) // the requests of a tree that is compared with; nil when there is none
}

// Tenant is one folder under tenants/.
type Tenant struct {
	Namespace string
	request.Requests
	Records map[string]*ledger.Record // by cluster name
	broken  map[string]bool           // clusters whose record is there and cannot be read
	fresh   map[string]bool           // clusters whose record is still to be written
	partial bool                      // a request could not be read
	terms   catalog.Tenant            // what the tenant may have
}

// Render loads what the paths ask for and builds its manifests. When the list has an error the set is empty. The input is nil when
// the root could not be made sense of, its Catalog is nil when the catalog could not.
func Render(tree fs.FS, paths ...string) (*Input, manifest.Set, diag.List, error) {
	in, found, err := Load(tree, paths...)
	if err != nil || in == nil || in.Catalog == nil {
		return in, manifest.Set{}, found, err
	}
	set, more, err := Build(tree, in)
	found.Add(more...)
	if err != nil || found.Failed() {
		return in, manifest.Set{}, found, err
	}
	return in, set, found, nil
}

// Offer loads the catalog alone.
func Offer(tree fs.FS) (*Input, diag.List, error) {
	folders, found, err := loadRoot(tree)
	if err != nil || found.Failed() {
		return nil, found, err
	}
	in := &Input{Folders: folders}
	in.Catalog, found, err = catalog.Load(tree, folders.Catalog)
	if found.Failed() {
		in.Catalog = nil
	}
	return in, found, err
}

// Load reads the parts of a tree that the paths need. A path is slash-separated and relative to the root: the root itself ("" or
// "."), the catalog folder, the tenants folder, a tenant's folder or one file in it. No path means the root.
func Load(tree fs.FS, paths ...string) (*Input, diag.List, error) {
	folders, found, err := loadRoot(tree)
	if err != nil || found.Failed() {
		return nil, found, err
	}
	in := &Input{Folders: folders}
	offer, wrong, err := catalog.Load(tree, folders.Catalog)
	if err != nil {
		return nil, wrong, err
	}
	if !wrong.Failed() { // what is built on a wrong catalog is wrong too; the requests are still read
		in.Catalog = offer
	}
	namespaces, bad, err := in.choose(tree, paths)
	if found.Add(bad...); err != nil || bad.Failed() {
		return nil, append(wrong, found...), err
	}
	for _, name := range in.misplaced {
		found.Add(misplaced(name))
	}
	bad, err = in.loadTenants(tree, namespaces)
	found.Add(bad...)
	if offer != nil && !in.Platform && !in.Complete {
		if wrong = offer.Bearing(wrong, in.users()...); !wrong.Failed() {
			in.Catalog = offer
			for _, t := range in.Tenants {
				t.terms = offer.Tenant(t.Namespace)
			}
		}
	}
	return in, append(wrong, found...), err
}

// users are the parts of the catalog that the tenants make use of.
func (in *Input) users() []catalog.User {
	var out []catalog.User
	for _, t := range in.Tenants {
		out = append(out, catalog.User{Tenant: t.Namespace})
		for _, c := range t.Clusters {
			u := catalog.User{Tenant: t.Namespace, Tier: c.Spec.Tier}
			if r := t.Records[c.Name]; r != nil {
				u.AddressPool = r.AddressPool
			}
			out = append(out, u)
		}
	}
	return out
}

// loadTenants reads tenants' folders, several at a time, and keeps them in order.
func (in *Input) loadTenants(tree fs.FS, namespaces []string) (diag.List, error) {
	type loaded struct {
		tenant *Tenant
		found  diag.List
		err    error
	}
	all := make([]loaded, len(namespaces))
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i, ns := range namespaces {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			l := &all[i]
			if l.tenant, l.found, l.err = in.loadTenant(tree, ns); l.err == nil && in.addressesOnly(ns) {
				l.found = warned(l.found, in.Folders.Tenants)
			}
		})
	}
	wg.Wait()
	var found diag.List
	for _, l := range all {
		if l.err != nil {
			return found, l.err
		}
		found.Add(l.found...)
		in.Tenants = append(in.Tenants, l.tenant)
	}
	return found, nil
}

func loadRoot(tree fs.FS) (Folders, diag.List, error) {
	f := Folders{Catalog: "catalog", Tenants: "tenants", Ledger: "ledger"}
	data, err := fs.ReadFile(tree, RootFile)
	if errors.Is(err, fs.ErrNotExist) {
		return f, diag.List{diag.Errorf(diag.Pos{File: RootFile}, "root/missing", "there is no %s: this is not the root of a tenants repository", RootFile)}, nil
	}
	if err != nil {
		return f, nil, fmt.Errorf("reading %s: %w", RootFile, err)
	}
	docs, found := strict.Parse(RootFile, data)
	if found.Failed() {
		return f, found, nil
	}
	if len(docs) != 1 {
		return f, diag.List{diag.Errorf(diag.Pos{File: RootFile}, "root/malformed", "%d documents, want one", len(docs))}, nil
	}
	r := rootFile{Folders: f}
	if found.Add(docs[0].Decode("root", &r)...); found.Failed() {
		return f, found, nil
	}
	if r.APIVersion != catalog.APIVersion {
		found.Add(diag.Errorf(docs[0].At("apiVersion"), "root/malformed", "apiVersion %q, want %s", r.APIVersion, catalog.APIVersion))
	}
	if r.Kind != "Repository" {
		found.Add(diag.Errorf(docs[0].At("kind"), "root/malformed", "kind %q, want Repository", r.Kind))
	}
	all := map[string]string{"catalog": r.Folders.Catalog, "tenants": r.Folders.Tenants, "ledger": r.Folders.Ledger}
	for _, name := range catalog.Sorted(all) {
		if p := all[name]; !fs.ValidPath(p) || p == "." {
			found.Add(diag.Errorf(docs[0].At("folders", name), "root/malformed", "folder %q, want a path below the root", p))
		}
		for _, other := range catalog.Sorted(all) {
			if o := all[other]; other != name && (o == all[name] || strings.HasPrefix(o, all[name]+"/")) {
				found.Add(diag.Errorf(docs[0].At("folders", name), "root/malformed", "%s lies in the folder of %s, want three folders apart", other, name))
			}
		}
	}
	return r.Folders, found, nil
}

// choose turns the paths into the namespaces to read.
func (in *Input) choose(tree fs.FS, paths []string) ([]string, diag.List, error) {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	var found diag.List
	var out []string
	for _, p := range paths {
		p = path.Clean(p)
		switch {
		case p == "." || p == in.Folders.Tenants:
			in.Complete = true
			in.Platform = in.Platform || p == "."
		case p == in.Folders.Catalog || strings.HasPrefix(p, in.Folders.Catalog+"/"):
			in.Platform = true
			p = in.Folders.Catalog
		case strings.HasPrefix(p, in.Folders.Tenants+"/"):
			if _, err := fs.Stat(tree, p); err != nil && !errors.Is(err, diag.ErrOutside) {
				found.Add(diag.Errorf(diag.Pos{File: p}, "path/missing", "there is no such file or folder"))
				continue
			}
			out = append(out, strings.Split(strings.TrimPrefix(p, in.Folders.Tenants+"/"), "/")[0])
			in.selected = append(in.selected, p)
			continue
		default:
			found.Add(diag.Errorf(diag.Pos{File: p}, "path/unknown", "nothing is rendered from %q, want the root, %s, %s, or a folder or file in it", p, in.Folders.Catalog, in.Folders.Tenants))
			continue
		}
		in.selected = append(in.selected, p)
	}
	if in.Complete || in.Platform && in.perTenant() {
		all, misplaced, err := namespaces(tree, in.Folders.Tenants)
		if err != nil { // no tenants is not what an unreadable folder means
			found.Add(diag.Errorf(diag.Pos{File: in.Folders.Tenants}, "root/no-tenants", "the folder of the tenants cannot be read: %v", cause(err)).
				Hintf("restore it from Git; an empty fleet has an empty folder"))
			return nil, found, nil
		}
		if in.Complete {
			in.misplaced = misplaced
		}
		out = append(out, all...)
	}
	slices.Sort(out)
	return slices.Compact(out), found, nil
}

// perTenant reports whether tenants' addresses are manifests of the platform, so that every tenant must be read for them.
func (in *Input) perTenant() bool {
	if in.Catalog == nil {
		return false
	}
	for _, p := range in.Catalog.AddressPools {
		if p.Mode == catalog.ModePerTenant {
			return true
		}
	}
	return false
}

// cause is what a file system says is wrong, without the path, which the finding has.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Selected reports whether the request in a file is asked for.
func (in *Input) Selected(file string) bool {
	return slices.ContainsFunc(in.selected, func(p string) bool { return p == "." || p == file || strings.HasPrefix(file, p+"/") })
}

// Narrow leaves of the clusters that are asked for those that keep is true of. The others still have to be right, as those beside a
// file that is asked for do; but whether their machines would be replaced is not asked.
func (in *Input) Narrow(keep func(*request.Cluster) bool) { in.narrowed = keep }

// wants reports whether a cluster is asked for.
func (in *Input) wants(c *request.Cluster) bool {
	return in.Selected(c.File()) && (in.narrowed == nil || in.narrowed(c))
}

// readDir lists a folder by name: not every file system does by itself.
func readDir(tree fs.FS, dir string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(tree, dir)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// namespaces are the folders under tenants/, and the files there that somebody may have taken for requests.
func namespaces(tree fs.FS, dir string) (folders, misplaced []string, err error) {
	entries, err := readDir(tree, dir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		info, err := fs.Stat(tree, name) // a link counts as what it leads to
		switch {
		case err == nil && info.IsDir(), err != nil && e.Type()&fs.ModeSymlink != 0: // loadTenant says what is wrong with a link
			folders = append(folders, e.Name())
		case catalog.IsYAML(name):
			misplaced = append(misplaced, name)
		}
	}
	return folders, misplaced, nil
}
