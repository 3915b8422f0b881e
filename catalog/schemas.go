package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"sigs.k8s.io/yaml"

	"copyhold.dev/copyhold/render/diag"
)

// definition is as much of a CustomResourceDefinition as its file's name has to agree with.
type definition struct {
	Kind string `json:"kind"`
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Plural string `json:"plural"`
		} `json:"names"`
	} `json:"spec"`
}

// CheckSchemas finds files in the folder crds that define nothing, and those that define what is not looked for under their name. Schema
// reads a file only once a kind asks for it; until then nobody would notice.
func (c *Catalog) CheckSchemas() (diag.List, error) {
	dir := c.Dir("crds")
	entries, err := fs.ReadDir(c.tree, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading schemas: %w", err)
	}
	var found diag.List
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") || !IsYAML(name) && path.Ext(name) != ".json" {
			continue
		}
		data, err := fs.ReadFile(c.tree, name)
		if err != nil {
			return found, fmt.Errorf("reading schemas: %w", err)
		}
		found.Add(checkSchema(name, data)...)
	}
	return found, nil
}

func checkSchema(name string, data []byte) diag.List {
	var d definition
	if at, err := readDefinition(name, data, &d); err != nil {
		return diag.List{diag.Errorf(at, "catalog/bad-schema", "the schema cannot be read: %v", err).Hintf("export it again: kubectl get crd NAME -o json")}
	}
	defines := d.Spec.Names.Plural + "." + d.Spec.Group
	switch {
	case d.Kind != "CustomResourceDefinition" || d.Spec.Group == "" || d.Spec.Names.Plural == "":
		return diag.List{diag.Errorf(diag.Pos{File: name, Line: 1}, "catalog/bad-schema", "kind %q, want a CustomResourceDefinition with a group and a plural name", d.Kind).
			Hintf("export it again: kubectl get crd NAME -o json")}
	case path.Base(name) != defines+".json" && path.Base(name) != defines+".yaml":
		return diag.List{diag.Warnf(diag.Pos{File: name, Line: 1}, "catalog/unused-schema", "the schema of %s is not looked for here: nothing is checked with it", defines).
			Hintf("name the file %s%s", defines, strings.Replace(path.Ext(name), ".yml", ".yaml", 1))}
	}
	return nil
}

// readDefinition reads JSON or YAML, and says where it cannot.
func readDefinition(name string, data []byte, into *definition) (diag.Pos, error) {
	at := diag.Pos{File: name}
	if path.Ext(name) != ".json" {
		return at, yaml.Unmarshal(data, into)
	}
	err := json.Unmarshal(data, into)
	if err != nil && !bytes.HasPrefix(data, []byte("{")) && yaml.Unmarshal(data, into) == nil { // as topology reads it
		return at, nil
	}
	offset := int64(-1)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
	}
	if before := data[:max(0, min(int(offset)-1, len(data)))]; offset >= 0 {
		text := string(before)
		at.Line = 1 + strings.Count(text, "\n")
		at.Col = len(text) - strings.LastIndex(text, "\n")
	}
	return at, err
}
