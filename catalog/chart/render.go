// Package chart renders a Helm chart of the repository, offline and repeatably: the same files and values give the same objects
// on every machine, today and in a year. It holds the only code that calls helm, and never decides what the objects are for.
//
// What helm would do differently from one run or machine to the next is refused before anything is run: functions that read the
// clock, draw random numbers or ask a cluster, and schemas that refer to other files. The rest of helm is as people know it:
// defaults, conditions, tags, aliases and import-values of subcharts, .helmignore, library charts, .Files and tpl.
//
// Three things are left out on purpose. NOTES.txt is not run. A chart's crds/ folder is not rendered (the catalog keeps schemas
// in a folder of its own). Hooks for `helm test` are dropped, and any other hook is refused, since there is no helm to run it.
//
// A chart is the platform team's code. It reads nothing but its own folder and reaches nothing, but it may spend memory and time
// as it likes. Helm's own warnings, such as a table given where the chart has a number, go to the standard logger of package log.
//
// Start at Render.
package chart

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	helm "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"

	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
)

// Options are what helm would take from the command line. Values lie over the chart's defaults; they may be nil and are not changed.
type Options struct {
	Name      string // of the release
	Namespace string // of the release
	Values    map[string]any
	At        func(path []string) (diag.Pos, bool) // where one of Values is written; nil when nobody can say
}

// Render gives the objects of the chart in a folder of the tree, sorted, as helm would install them for the first time.
// An object that names no namespace is left without one.
//
// Whatever the author of the chart or of the values can put right is a finding, and with an error among them there are no objects.
// The error is about the tree alone: a file that cannot be read.
func Render(tree fs.FS, dir string, o Options) ([]*manifest.Object, diag.List, error) {
	files, found, err := read(tree, dir)
	if err != nil {
		return nil, nil, fmt.Errorf("reading chart: %w", err)
	}
	if found.Failed() {
		return nil, found.Sorted(), nil
	}
	r, found := prepare(dir, files, o)
	if found.Failed() {
		return nil, found.Sorted(), nil
	}
	found = append(r.checkSchemas(), r.checkTemplates()...)
	if found.Failed() {
		return nil, found.Sorted(), nil
	}
	// Templates can change the values they are given, so the second run starts from the files as well.
	again, _ := prepare(dir, files, o)
	rendered, found := r.run()
	if found.Failed() {
		return nil, found.Sorted(), nil
	}
	if found = r.compare(rendered, again); found.Failed() {
		return nil, found.Sorted(), nil
	}
	objects, found := r.objects(rendered)
	return objects, found.Sorted(), nil
}

// release is a chart with its values, ready to be run.
type release struct {
	dir    string
	chart  *helm.Chart
	dirs   map[*helm.File]string // the folder of each chart, by its Chart.yaml; aliases share it
	values chartutil.Values      // all that a template sees
	ns     string
	at     func(path []string) (diag.Pos, bool) // see Options
}

// prepare loads the chart from its files, switches its subcharts on and off, and merges the values.
func prepare(dir string, files []file, o Options) (*release, diag.List) {
	r := &release{dir: dir, dirs: map[*helm.File]string{}, ns: o.Namespace, at: o.At}
	values, err := plain(o.Values)
	if err != nil {
		return nil, diag.List{diag.Errorf(diag.Pos{File: dir}, "chart/values", "the values of the chart cannot be written as YAML: %v", err)}
	}
	l := loading{dirs: r.dirs, left: maxTotal}
	r.chart = l.load(dir, files)
	if l.found.Failed() {
		return nil, l.found
	}
	if err := chartutil.ProcessDependencies(r.chart, values); err != nil {
		return nil, diag.List{r.unmergeable(err)}
	}
	if found := r.checkCharts(); found.Failed() {
		return nil, found
	}
	as := chartutil.ReleaseOptions{Name: o.Name, Namespace: o.Namespace, Revision: 1, IsInstall: true}
	// The schemas are left to checkSchemas: helm's own check would fetch what they refer to.
	r.values, err = chartutil.ToRenderValuesWithSchemaValidation(r.chart, values, as, capabilities(), true)
	if err != nil {
		return nil, diag.List{r.unmergeable(err)}
	}
	return r, nil
}

// plain gives the values as helm reads them from a file, where every number is a float64. It is a copy down to the last list.
func plain(values map[string]any) (map[string]any, error) {
	data, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, err
	}
	if out == nil { // the values were nil, and JSON's null makes the map nil again
		out = map[string]any{}
	}
	return out, nil
}

// charts gives the chart and its enabled subcharts at every depth, a parent before its children.
func (r *release) charts() []*helm.Chart {
	var all []*helm.Chart
	var add func(c *helm.Chart)
	add = func(c *helm.Chart) {
		all = append(all, c)
		for _, d := range c.Dependencies() {
			add(d)
		}
	}
	add(r.chart)
	return all
}

// file is the repository path of a chart's file.
func (r *release) file(c *helm.Chart, name string) string {
	for _, f := range c.Raw {
		if f.Name == chartFile {
			return path.Join(r.dirs[f], name)
		}
	}
	return r.dir
}

// templates gives the repository path of every template, by the name that helm runs it under.
func (r *release) templates() map[string]string {
	out := map[string]string{}
	for _, c := range r.charts() {
		for _, t := range c.Templates {
			out[templateName(c, t)] = r.file(c, t.Name)
		}
	}
	return out
}

func templateName(c *helm.Chart, t *helm.File) string { return path.Join(c.ChartFullPath(), t.Name) }

// partial reports whether a template is never run on its own, only for what it defines.
func partial(name string) bool { return strings.HasPrefix(path.Base(name), "_") }

func (r *release) run() (map[string]string, diag.List) {
	rendered, err := engine.Engine{}.Render(r.chart, r.values)
	if err != nil {
		return nil, diag.List{r.failure(err)}
	}
	return rendered, nil
}

// compare runs the chart a second time. checkTemplates finds every function that is known not to be repeatable; this finds, mostly,
// what it cannot see: the address of an object in memory printed by {{ .Chart.Maintainers }}, or the order of a map.
func (r *release) compare(rendered map[string]string, again *release) diag.List {
	second, found := again.run()
	files := r.templates()
	for name, text := range rendered {
		if !found.Failed() && second[name] != text {
			found.Add(diag.Errorf(diag.Pos{File: files[name]}, "chart/not-repeatable", "two renderings of this template differ").
				Hintf("print single fields, not whole objects such as .Chart, and give no two files of one .AsConfig the same name"))
		}
	}
	return found
}

// objects reads what the templates have printed.
func (r *release) objects(rendered map[string]string) ([]*manifest.Object, diag.List) {
	var objects []*manifest.Object
	var found diag.List
	files := r.templates()
	first := map[manifest.ID]string{}
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		at := diag.Pos{File: files[name]}
		parsed, err := manifest.Parse([]byte(rendered[name]))
		if err != nil {
			found.Add(diag.Errorf(at, "chart/output", "the output is not readable: %s", yamlMessage(err)))
			continue
		}
		for _, o := range parsed {
			if hook, ok := o.GetAnnotations()["helm.sh/hook"]; ok {
				if !forTests(hook) {
					found.Add(diag.Errorf(at, "chart/hook", "%s is a hook (%s), and a hook is run by helm, which is not there", manifest.IDOf(o), hook).
						Hintf("switch the hook off with a value of the chart, or make the object an ordinary one"))
				}
				continue
			}
			id := manifest.IDOf(o)
			id.Namespace = cmp.Or(id.Namespace, r.ns)
			if before, ok := first[id]; ok {
				found.Add(diag.Errorf(at, "chart/output", "%s is there twice, first in %s", manifest.IDOf(o), before))
				continue
			}
			first[id] = files[name]
			objects = append(objects, o)
		}
	}
	if found.Failed() {
		return nil, found
	}
	set, err := manifest.New(objects...)
	if err != nil {
		return nil, diag.List{diag.Errorf(diag.Pos{File: r.dir}, "chart/output", "%v", err)}
	}
	return set.Objects(), nil
}

// forTests reports whether every event of a hook is one of `helm test` (test, and test-success from before Helm 3).
func forTests(hook string) bool {
	for event := range strings.SplitSeq(hook, ",") {
		if !strings.HasPrefix(strings.TrimSpace(event), "test") {
			return false
		}
	}
	return true
}

// line gives the place of a byte in a text.
func line(file string, text []byte, offset int) diag.Pos {
	before := text[:min(offset, len(text))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return diag.Pos{File: file, Line: bytes.Count(before, []byte("\n")) + 1, Col: len(bytes.Runes(before[start:])) + 1}
}
