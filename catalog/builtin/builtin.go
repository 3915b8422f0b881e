// Package builtin holds the catalog that copyhold init writes out: cluster tiers that mirror the documented kMetal ones, and further
// ones on demand, each a chart of explicit objects. It is ours, and makes no claim to be the chart that kMetal installs; rendering reads
// the files of a tenants repository, never these.
package builtin

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed all:files
var files embed.FS

//go:embed all:tiers
var tiers embed.FS

// Repository is a tenants repository with the built-in catalog and no requests.
func Repository() fs.FS { return sub(files, "files") }

func sub(tree fs.FS, dir string) fs.FS {
	s, err := fs.Sub(tree, dir)
	if err != nil {
		panic(err) // the folders are embedded above
	}
	return s
}

// Tiers are the names of the tiers that are written out on demand.
func Tiers() []string {
	var out []string
	entries, err := fs.ReadDir(sub(tiers, "tiers"), ".")
	if err != nil {
		panic(err) // it is embedded above
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok {
			out = append(out, name)
		}
	}
	return slices.Sorted(slices.Values(out))
}

// catalogFile is where a repository has its catalog.
const catalogFile = "catalog/catalog.yaml"

// With are the files of a tenants repository with the built-in catalog and further tiers, by path.
func With(names ...string) (map[string][]byte, error) {
	out := map[string][]byte{}
	if err := collect(out, Repository(), ""); err != nil {
		return nil, err
	}
	for _, name := range names {
		if !slices.Contains(Tiers(), name) {
			return nil, fmt.Errorf("there is no built-in tier %q", name)
		}
		added, entry, err := Tier(name)
		if err != nil {
			return nil, err
		}
		for file, data := range added {
			out[file] = data
		}
		head := []byte("\n  tiers:\n")
		before, after, ok := bytes.Cut(out[catalogFile], head)
		if !ok {
			return nil, fmt.Errorf("the built-in catalog has no tiers")
		}
		out[catalogFile] = slices.Concat(before, head, entry, after)
	}
	return out, nil
}

// Tier are the files of one of Tiers, by their paths in a tenants repository, and its entry in catalog.yaml, to go under tiers.
func Tier(name string) (added map[string][]byte, entry []byte, err error) {
	tree := sub(tiers, "tiers")
	if entry, err = fs.ReadFile(tree, name+".yaml"); err != nil {
		return nil, nil, err
	}
	added = map[string][]byte{}
	dir := "catalog/tiers/" + name
	if err := collect(added, sub(tree, name), dir); err != nil {
		return nil, nil, err
	}
	chart := string(bytes.Join(values(added), nil))
	if strings.Contains(chart, `include "kamaji.`) {
		if err := collect(added, sub(tree, "common"), path.Join(dir, "templates")); err != nil {
			return nil, nil, err
		}
	}
	schemas := map[string][]byte{}
	for _, from := range []fs.FS{sub(files, "files/catalog/crds"), sub(tree, "crds")} {
		if err := collect(schemas, from, "catalog/crds"); err != nil {
			return nil, nil, err
		}
	}
	for file, data := range schemas { // those of the kinds that the chart names
		if i := bytes.Index(data, []byte(`"listKind": "`)); i >= 0 {
			kind, _, _ := strings.Cut(string(data[i+len(`"listKind": "`):]), `List"`)
			if strings.Contains(chart, kind) {
				added[file] = data
			}
		}
	}
	return added, entry, nil
}

func values(m map[string][]byte) [][]byte {
	var out [][]byte
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// collect reads all files of a tree, their paths below dir.
func collect(into map[string][]byte, tree fs.FS, dir string) error {
	return fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(tree, name)
		into[path.Join(dir, name)] = data
		return err
	})
}
