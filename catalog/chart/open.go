package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	sigsyaml "sigs.k8s.io/yaml"

	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
)

// Chart is a chart that was read once, to be rendered many times with other values.
type Chart struct {
	dir   string
	name  string
	files []file

	schema   func() (*jsonschema.Schema, diag.List)
	mu       sync.Mutex
	compared bool                 // two renderings were held against each other
	vetted   map[string]diag.List // what is wrong with the templates, by the subcharts that are switched on
}

// Open reads a chart. Unlike Render, a Chart does not hold values against values.schema.json by itself: Violations does, which says
// where each fault lies.
func Open(tree fs.FS, dir string) (*Chart, diag.List, error) {
	files, found, err := read(tree, dir)
	if err != nil {
		return nil, nil, fmt.Errorf("reading chart: %w", err)
	}
	if found.Failed() {
		return nil, found.Sorted(), nil
	}
	c := &Chart{dir: dir, files: files, vetted: map[string]diag.List{}}
	c.schema = sync.OnceValues(c.compile)
	r, found := prepare(dir, files, Options{Name: "x", Namespace: "x"})
	if !found.Failed() {
		c.name = r.chart.Name()
		found = c.vet(r)
	}
	if !found.Failed() {
		_, found = c.schema()
	}
	if found.Failed() {
		return nil, found.Sorted(), nil
	}
	return c, nil, nil
}

// vet checks the templates of a release once for each choice of subcharts: values switch them on and off.
func (c *Chart) vet(r *release) diag.List {
	var names []string
	for _, part := range r.charts() {
		names = append(names, part.ChartFullPath())
	}
	key := strings.Join(names, " ")
	c.mu.Lock()
	defer c.mu.Unlock()
	found, known := c.vetted[key]
	if !known {
		found = r.checkTemplates()
		c.vetted[key] = found
	}
	return found
}

// Name is the chart's own name.
func (c *Chart) Name() string { return c.name }

// file is the content of one of the chart's files; nil when it is not there.
func (c *Chart) file(name string) []byte {
	for _, f := range c.files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

// SchemaFile is the repository path of the chart's values.schema.json, and its content; nil when there is none.
func (c *Chart) SchemaFile() (string, []byte) {
	return path.Join(c.dir, schemaFile), c.file(schemaFile)
}

// Defaults are the chart's own values, from its values.yaml.
func (c *Chart) Defaults() (map[string]any, diag.List) {
	out := map[string]any{}
	if err := sigsyaml.Unmarshal(c.file(valuesFile), &out); err != nil {
		return nil, diag.List{diag.Errorf(diag.Pos{File: path.Join(c.dir, valuesFile)}, "chart/invalid", "%s", yamlMessage(err))}
	}
	return out, nil
}

// Render gives the objects of the chart as the function Render does, but for the check of the chart's own values. That two renderings are
// alike is looked at once for each Chart.
func (c *Chart) Render(o Options) ([]*manifest.Object, diag.List) {
	r, found := prepare(c.dir, c.files, o)
	if !found.Failed() {
		found = c.vet(r)
	}
	if !found.Failed() {
		found = r.checkSubSchemas()
	}
	if found.Failed() {
		return nil, found.Sorted()
	}
	rendered, found := r.run()
	if found.Failed() {
		return nil, found.Sorted()
	}
	c.mu.Lock()
	first := !c.compared
	c.compared = true
	c.mu.Unlock()
	if first {
		again, _ := prepare(c.dir, c.files, o)
		if found = r.compare(rendered, again); found.Failed() {
			c.mu.Lock()
			c.compared = false // whoever comes next is told too
			c.mu.Unlock()
			return nil, found.Sorted()
		}
	}
	objects, found := r.objects(rendered)
	return objects, found.Sorted()
}

// Violation is a value that values.schema.json refuses.
type Violation struct {
	Path    []string // from the top of the values
	Unknown []string // keys at the path that the schema does not have
	Missing []string // keys at the path that the schema wants
	Words   string   // what was expected
}

// Violations hold values against the chart's values.schema.json. A chart without one takes everything.
func (c *Chart) Violations(values map[string]any) ([]Violation, error) {
	schema, _ := c.schema() // what is wrong with it was found by Open
	if schema == nil {
		return nil, nil
	}
	values, err := plain(values)
	if err != nil {
		return nil, fmt.Errorf("writing values as JSON: %w", err)
	}
	var bad *jsonschema.ValidationError
	if err := schema.Validate(values); err == nil {
		return nil, nil
	} else if !errors.As(err, &bad) {
		return nil, fmt.Errorf("checking values: %w", err)
	}
	var out []Violation
	for _, v := range violations(bad) {
		x := Violation{Path: v.InstanceLocation, Words: plainWords(v)}
		switch k := v.ErrorKind.(type) {
		case *kind.AdditionalProperties:
			x.Unknown = k.Properties
		case *kind.Required:
			x.Missing = k.Missing
		}
		out = append(out, x)
	}
	return out, nil
}

// plainWords says what was expected of one value, as the other findings say it.
func plainWords(e *jsonschema.ValidationError) string {
	choices := func(all []any) string {
		var out []string
		for _, c := range all {
			out = append(out, fmt.Sprint(c))
		}
		return strings.Join(out, ", ")
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Enum:
		if len(k.Want) == 1 {
			return "want " + choices(k.Want)
		}
		return clip("want one of " + choices(k.Want))
	case *kind.Const:
		return fmt.Sprintf("want %v", k.Want)
	case *kind.Type:
		return fmt.Sprintf("want %s, got %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Minimum:
		return "want " + k.Want.RatString() + " or more"
	case *kind.Maximum:
		return "want at most " + k.Want.RatString()
	case *kind.MinItems:
		return fmt.Sprintf("want %d or more entries", k.Want)
	case *kind.MaxItems:
		if k.Want == 1 {
			return "want at most one entry"
		}
		return fmt.Sprintf("want at most %d entries", k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("want %d or more characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("want at most %d characters", k.Want)
	case *kind.Pattern:
		return "want text as " + k.Want
	case *kind.FalseSchema:
		return "it may not be set beside the other values"
	}
	return oneLine(expected(e, ""))
}

// compile makes a validator of the chart's schema; nil when there is none.
func (c *Chart) compile() (*jsonschema.Schema, diag.List) {
	name, data := c.SchemaFile()
	if data == nil {
		return nil, nil
	}
	return compile(name, data)
}

// compile makes a validator of a schema that refers to nothing outside itself.
func compile(name string, data []byte) (*jsonschema.Schema, diag.List) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, diag.List{unparsable(name, data, err)}
	}
	if found := remote(name, data, doc); found.Failed() {
		return nil, found
	}
	const self = "file:///values.schema.json" // the name helm gives it
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(nowhere{})
	if err := compiler.AddResource(self, doc); err != nil {
		return nil, diag.List{badSchema(name, err)}
	}
	compiled, err := compiler.Compile(self)
	if err != nil {
		return nil, diag.List{badSchema(name, err)}
	}
	return compiled, nil
}
