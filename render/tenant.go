package render

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/request"
	"copyhold.dev/copyhold/render/strict"
)

// loadTenant reads one tenant's folder, and the ledger's records of its clusters.
func (in *Input) loadTenant(tree fs.FS, namespace string) (*Tenant, diag.List, error) {
	t := &Tenant{Namespace: namespace, Records: map[string]*ledger.Record{}, broken: map[string]bool{}}
	if in.Catalog != nil {
		t.terms = in.Catalog.Tenant(namespace)
	}
	dir := path.Join(in.Folders.Tenants, namespace)
	var found diag.List
	if errs := validation.IsDNS1123Label(namespace); len(errs) > 0 && !catalog.IsYAML(namespace) {
		found.Add(diag.Errorf(diag.Pos{File: dir}, "request/bad-name", "folder %q, want a namespace: lower-case letters, digits and -, at most 63", namespace).
			Hintf("the folder is the namespace: rename it"))
		return t, found, nil
	}
	if info, err := fs.Stat(tree, dir); err == nil && !info.IsDir() {
		return t, diag.List{misplaced(dir)}, nil
	}
	entries, err := readDir(tree, dir)
	if err != nil {
		if f, ok := badLink(dir, err); ok {
			return t, diag.List{f}, nil
		}
		return nil, nil, fmt.Errorf("reading %s: %w", dir, err)
	}
	for _, e := range entries {
		r, bad, err := loadFile(tree, path.Join(dir, e.Name()))
		if err != nil {
			return nil, nil, err
		}
		found.Add(bad...)
		t.Clusters = append(t.Clusters, r.Clusters...)
		t.Subnets = append(t.Subnets, r.Subnets...)
	}
	found.Add(t.unique()...)
	t.partial = found.Failed()
	for _, c := range t.Clusters {
		r, bad, err := in.loadRecord(tree, c)
		if err != nil {
			return nil, nil, err
		}
		found.Add(bad...)
		switch {
		case bad.Failed():
			t.broken[c.Name] = true
		case r != nil:
			t.Records[c.Name] = r
		}
	}
	return t, found, nil
}

func misplaced(name string) diag.Finding {
	if strings.HasPrefix(path.Base(name), argocdSource) {
		return overriding(name)
	}
	return diag.Errorf(diag.Pos{File: name}, "request/misplaced", "the file stands beside the tenants' folders, where no request is read").
		Hintf("move it to %s/NAMESPACE/%s: the folder is the namespace", path.Dir(name), path.Base(name))
}

// argocdSource is how names of files begin by which a folder overrides the Application that renders it.
const argocdSource = ".argocd-source"

func overriding(name string) diag.Finding {
	return diag.Errorf(diag.Pos{File: name}, "request/argocd-source", "%s would change how Argo CD renders this folder; it is not allowed here", path.Base(name)).
		Hintf("remove it; what an application may set is set in its Application")
}

// loadFile reads one entry of a tenant's folder. A file that would be passed over in silence could be a cluster somebody counts
// on, so only what cannot be a request is.
func loadFile(tree fs.FS, name string) (request.Requests, diag.List, error) {
	base := path.Base(name)
	info, err := fs.Stat(tree, name)
	if err != nil {
		if f, ok := badLink(name, err); ok {
			return request.Requests{}, diag.List{f}, nil
		}
		return request.Requests{}, diag.List{diag.Errorf(diag.Pos{File: name}, "request/unreadable", "%v", cause(err))}, nil
	}
	var refuse diag.Finding
	switch {
	case strings.HasPrefix(base, argocdSource):
		refuse = overriding(name)
	case info.IsDir():
		refuse = diag.Errorf(diag.Pos{File: name}, "request/nested-folder", "a folder in a tenant's folder is not read").
			Hintf("move its files up to %s", path.Dir(name))
	case base == "kustomization.yaml" || base == "kustomization.yml" || base == "Kustomization":
		refuse = diag.Errorf(diag.Pos{File: name}, "request/kustomization", "a tenant's folder holds requests, not a kustomization").
			Hintf("overlays are the platform team's: see overlays in catalog.yaml")
	case strings.HasPrefix(base, ".") && !catalog.IsYAML(base), path.Ext(base) == ".md", base == "OWNERS", base == "CODEOWNERS":
		return request.Requests{}, nil, nil
	case !catalog.IsYAML(base):
		refuse = diag.Errorf(diag.Pos{File: name}, "request/not-read", "the file is not read: requests end in .yaml").
			Hintf("rename it, or move it out of the tenants' folders; Markdown may stay")
	case !info.Mode().IsRegular():
		refuse = diag.Errorf(diag.Pos{File: name}, "request/unreadable", "%s is not a regular file", base)
	case info.Size() > strict.MaxSize:
		refuse = diag.Errorf(diag.Pos{File: name}, "yaml/too-large", "the file has %d bytes, want at most %d", info.Size(), strict.MaxSize).
			Hintf("split it: a folder may hold any number of files")
	}
	if refuse.Name != "" {
		return request.Requests{}, diag.List{refuse}, nil
	}
	data, err := fs.ReadFile(tree, name)
	if errors.Is(err, fs.ErrPermission) {
		return request.Requests{}, diag.List{diag.Errorf(diag.Pos{File: name}, "request/unreadable", "no permission to read the file")}, nil
	}
	if err != nil {
		return request.Requests{}, nil, fmt.Errorf("reading %s: %w", name, err)
	}
	r, found := request.Parse(name, data)
	return r, found, nil
}

// badLink makes a finding of a link that leads nowhere or out of the root.
func badLink(name string, err error) (diag.Finding, bool) {
	switch {
	case errors.Is(err, diag.ErrOutside):
		return diag.Errorf(diag.Pos{File: name}, "request/link-outside", "the link leads out of the repository").
			Hintf("commit the file itself"), true
	case errors.Is(err, fs.ErrNotExist):
		return diag.Errorf(diag.Pos{File: name}, "request/broken-link", "the link leads to nothing").
			Hintf("remove it, or commit the file it should lead to"), true
	case errors.Is(err, fs.ErrPermission):
		return diag.Errorf(diag.Pos{File: name}, "request/unreadable", "no permission to read it"), true
	}
	return diag.Finding{}, false
}

// unique finds names that are asked for twice. Both requests are dropped: neither can be told to be the right one.
func (t *Tenant) unique() diag.List {
	var found diag.List
	clusters, subnets := map[string][]request.Meta{}, map[string][]request.Meta{}
	for _, c := range t.Clusters {
		clusters[c.Name] = append(clusters[c.Name], c.Meta)
	}
	for _, s := range t.Subnets {
		subnets[s.Name] = append(subnets[s.Name], s.Meta)
	}
	for what, all := range map[string]map[string][]request.Meta{"cluster": clusters, "subnet": subnets} {
		for _, name := range catalog.Sorted(all) {
			for _, m := range all[name][1:] {
				found.Add(diag.Errorf(m.At("metadata", "name"), "request/duplicate", "%s %q is asked for twice in %s, first at %s", what, name, t.Namespace, all[name][0].At("metadata", "name")).
					Hintf("give one of the two another name"))
			}
		}
	}
	t.Clusters = slices.DeleteFunc(t.Clusters, func(c *request.Cluster) bool { return len(clusters[c.Name]) > 1 })
	t.Subnets = slices.DeleteFunc(t.Subnets, func(s *request.Subnet) bool { return len(subnets[s.Name]) > 1 })
	return found
}

// RecordFile is the repository path of the ledger's record of a cluster, namespace/name.
func (in *Input) RecordFile(holder string) string {
	return path.Join(in.Folders.Ledger, "clusters", holder+".yaml")
}

// loadRecord reads the record of a cluster. That of one that had the name before is none: what it had may be another's by now.
func (in *Input) loadRecord(tree fs.FS, c *request.Cluster) (*ledger.Record, diag.List, error) {
	r, found, err := in.readRecord(tree, c)
	if r != nil && !found.Failed() && r.Released != "" {
		return nil, nil, nil
	}
	return r, found, err
}

// readRecord reads the record of a cluster, released or not; nil when there is none.
func (in *Input) readRecord(tree fs.FS, c *request.Cluster) (*ledger.Record, diag.List, error) {
	name := in.RecordFile(c.String())
	data, err := fs.ReadFile(tree, name)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := fs.Lstat(tree, name); err != nil {
			return nil, nil, nil
		}
	}
	if err != nil { // a link that leads nowhere is not a cluster without a record
		return nil, diag.List{diag.Errorf(diag.Pos{File: name}, "ledger/unreadable", "the record of %s cannot be read: %v", c, cause(err)).Hintf("restore the file from Git; do not pin another address")}, nil
	}
	r, found := ledger.ParseRecord(name, data)
	return r, found, nil
}
