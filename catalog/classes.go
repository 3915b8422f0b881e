package catalog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/dirhash"

	"copyhold.dev/copyhold/catalog/chart"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
)

// ClassObjects are the ClusterClasses and templates of a class source, by its key in classes. A chart is rendered offline.
// Objects of another namespace than the source's are left out when exported, and an error when a chart renders them.
func (c *Catalog) ClassObjects(key string) ([]*manifest.Object, diag.List, error) {
	return c.classObjects(key, nil)
}

// classObjects takes values to lay over those of a chart.
func (c *Catalog) classObjects(key string, over map[string]any) ([]*manifest.Object, diag.List, error) {
	s := c.Classes[key]
	found, err := c.checkDigest(key)
	if err != nil || found.Failed() {
		return nil, found, err
	}
	var objects []*manifest.Object
	var bad diag.List
	if s.Chart != "" {
		values, odd, readErr := c.values(key)
		if found.Add(odd...); readErr != nil || found.Failed() {
			return nil, found, readErr
		}
		objects, bad, err = chart.Render(c.tree, c.Dir(s.Chart), chart.Options{Name: key, Namespace: s.Namespace, Values: merge(values, over), At: c.valueAt(key)})
	} else {
		objects, bad, err = c.exported(s)
	}
	found.Add(c.named(bad, s.Chart+s.Manifests, "classes", key, map[bool]string{true: "chart", false: "manifests"}[s.Chart != ""])...)
	if err != nil || found.Failed() {
		return nil, found, err
	}
	objects = slices.DeleteFunc(objects, func(o *manifest.Object) bool { return s.Manifests != "" && o.GetNamespace() != s.Namespace })
	for _, o := range objects {
		if o.GetNamespace() == "" {
			o.SetNamespace(s.Namespace)
		}
		if kind := o.GetKind(); o.GetNamespace() != s.Namespace || kind != "ClusterClass" && !strings.HasSuffix(kind, "Template") {
			found.Add(diag.Errorf(c.At("classes", key), "class/foreign-object", "class source %q holds %s, want ClusterClasses and templates in namespace %q", key, manifest.IDOf(o), s.Namespace))
		}
		if strings.HasPrefix(o.GetAPIVersion(), "cluster.x-k8s.io/") && o.GetKind() == "ClusterClass" && o.GetAPIVersion() != "cluster.x-k8s.io/v1beta2" {
			found.Add(diag.Errorf(c.At("classes", key), "class/api-version", "ClusterClass %s is %s, want cluster.x-k8s.io/v1beta2", o.GetName(), o.GetAPIVersion()).
				Hintf("export it again with: kubectl get clusterclasses.v1beta2.cluster.x-k8s.io %s -n %s -o yaml", o.GetName(), s.Namespace))
		}
	}
	return objects, found, nil
}

// named says where catalog.yaml names a folder that is not there. p is the place of that name.
func (c *Catalog) named(found diag.List, folder string, p ...string) diag.List {
	for i := range found {
		if found[i].Pos == (diag.Pos{File: c.Dir(folder)}) && strings.HasSuffix(found[i].Name, "/missing") {
			found[i].Pos = c.At(p...)
		}
	}
	return found
}

// Schema is the CustomResourceDefinition of that name in the folder crds beside catalog.yaml, as JSON or YAML. One that is not there is
// fs.ErrNotExist.
func (c *Catalog) Schema(crd string) ([]byte, error) {
	data, err := fs.ReadFile(c.tree, c.Dir("crds/"+crd+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		data, err = fs.ReadFile(c.tree, c.Dir("crds/"+crd+".yaml"))
	}
	return data, err
}

// exported reads the manifests of a folder, in order of their file names.
func (c *Catalog) exported(s ClassSource) ([]*manifest.Object, diag.List, error) {
	var out []*manifest.Object
	var found diag.List
	dir := c.Dir(s.Manifests)
	err := fs.WalkDir(c.tree, dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !IsYAML(name) && path.Ext(name) != ".json" {
			return err
		}
		data, err := fs.ReadFile(c.tree, name)
		if err != nil {
			return err
		}
		objects, err := manifest.Parse(data)
		if err != nil {
			found.Add(diag.Errorf(diag.Pos{File: name}, "class/unreadable", "%v", err))
			return nil
		}
		out = append(out, objects...)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, diag.List{diag.Errorf(diag.Pos{File: dir}, "class/missing", "there is no folder %s", dir)}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading classes: %w", err)
	}
	if _, err := manifest.New(out...); err != nil {
		found.Add(diag.Errorf(diag.Pos{File: dir}, "class/duplicate", "%v", err))
	}
	return out, found, nil
}

// IsYAML reports whether a file is read as YAML by its name.
func IsYAML(name string) bool { return path.Ext(name) == ".yaml" || path.Ext(name) == ".yml" }

// checkDigest compares a source's folder with the digest that catalog.yaml gives for it: a vendored class that somebody edited
// is no longer the class that was vendored.
func (c *Catalog) checkDigest(key string) (diag.List, error) {
	want := c.Classes[key].Digest
	if want == "" {
		return nil, nil
	}
	got, err := c.Digest(key)
	if err != nil {
		return nil, err
	}
	if got == want {
		return nil, nil
	}
	return diag.List{diag.Errorf(c.At("classes", key, "digest"), "class/digest", "the files of class source %q have digest %s, not %s", key, got, want).
		Hintf("if the edit is meant, enter the new digest; otherwise restore the files from Git")}, nil
}

// Digest is the digest of a source's files, as go.sum has them: their names and contents, in any order.
func (c *Catalog) Digest(key string) (string, error) {
	s := c.Classes[key]
	return c.digestOf(s.Chart + s.Manifests)
}

// digestOf is the digest of a folder that catalog.yaml names.
func (c *Catalog) digestOf(folder string) (string, error) {
	dir := c.Dir(folder)
	var files []string
	err := fs.WalkDir(c.tree, dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files = append(files, strings.TrimPrefix(name, dir+"/"))
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return "none: there is no such folder", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", dir, err)
	}
	slices.Sort(files)
	sum, err := dirhash.Hash1(files, func(name string) (io.ReadCloser, error) { return c.tree.Open(path.Join(dir, name)) })
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", dir, err)
	}
	return sum, nil
}
