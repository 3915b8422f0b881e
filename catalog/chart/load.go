package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	helm "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/ignore"

	"copyhold.dev/copyhold/render/diag"
)

// The largest chart that is read, in bytes. Charts of classes have a few hundred KiB. The second bound also keeps a template from
// nesting so deep that its parser runs out of stack.
const (
	maxTotal = 10 << 20
	maxFile  = 2 << 20
)

const (
	chartFile  = "Chart.yaml"
	valuesFile = "values.yaml"
	schemaFile = "values.schema.json"
)

// file is one file of a chart. The name is relative to the chart's folder.
type file = *loader.BufferedFile

// read gives the files of the chart's folder in order of their names, less those that .helmignore names.
func read(tree fs.FS, dir string) ([]file, diag.List, error) {
	at := diag.Pos{File: dir}
	if !fs.ValidPath(dir) {
		return nil, diag.List{diag.Errorf(at, "chart/missing", "%q is no folder of this repository", dir)}, nil
	}
	info, err := fs.Stat(tree, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, diag.List{diag.Errorf(at, "chart/missing", "there is no folder %s", dir)}, nil
	case err != nil:
		return nil, nil, err
	case !info.IsDir():
		return nil, diag.List{diag.Errorf(at, "chart/missing", "%s is a file, want the chart's folder", dir).
			Hintf("unpack the chart into a folder")}, nil
	}
	rules, found, err := ignored(tree, dir)
	if err != nil || found.Failed() {
		return nil, found, err
	}
	var files []file
	left := maxTotal
	err = fs.WalkDir(tree, dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		inside := name
		if dir != "." {
			inside = strings.TrimPrefix(name, dir+"/")
		}
		switch {
		case rules.Ignore(inside, info) && e.IsDir():
			return fs.SkipDir
		case rules.Ignore(inside, info) || e.IsDir():
			return nil
		case !e.Type().IsRegular():
			found.Add(diag.Errorf(diag.Pos{File: name}, "chart/invalid", "not an ordinary file; links in a chart are not followed").
				Hintf("put a copy of the file there"))
			return nil
		}
		data, err := readFile(tree, name)
		if err != nil {
			return err
		}
		left -= len(data)
		if bad := tooLarge(dir, name, len(data), left); bad.Failed() {
			found.Add(bad...)
			return fs.SkipAll
		}
		files = append(files, &loader.BufferedFile{Name: inside, Data: bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))})
		return nil
	})
	return files, found, err
}

// readFile reads a file, but no more than is needed to see that it is too large.
func readFile(tree fs.FS, name string) ([]byte, error) {
	f, err := tree.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

func tooLarge(dir, name string, size, left int) diag.List {
	switch {
	case size > maxFile:
		return diag.List{diag.Errorf(diag.Pos{File: name}, "chart/too-large", "a file of a chart has more than %d bytes", maxFile).
			Hintf("name it in .helmignore if the chart does not need it")}
	case left < 0:
		return diag.List{diag.Errorf(diag.Pos{File: dir}, "chart/too-large", "the chart has more than %d bytes", maxTotal).
			Hintf("name what the chart does not need in .helmignore")}
	}
	return nil
}

// ignored reads .helmignore. As with helm, the one at the top counts for subcharts too, and dotfiles in templates/ never count.
func ignored(tree fs.FS, dir string) (*ignore.Rules, diag.List, error) {
	rules := ignore.Empty()
	name := path.Join(dir, ignore.HelmIgnore)
	data, err := fs.ReadFile(tree, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, nil, err
	default:
		if rules, err = ignore.Parse(bytes.NewReader(data)); err != nil {
			return nil, diag.List{diag.Errorf(diag.Pos{File: name}, "chart/invalid", "%v", err)}, nil
		}
	}
	rules.AddDefaults()
	return rules, nil, nil
}

// loading turns files into charts. Helm's loader does it for one chart at a time: left to go through charts/ itself it takes the
// subcharts in random order, and the order says which of two errors is shown.
type loading struct {
	dirs  map[*helm.File]string
	left  int // bytes that archives may still unpack to
	found diag.List
}

// load gives the chart in a folder, or nil and a finding.
func (l *loading) load(dir string, files []file) *helm.Chart {
	own, subs := split(files)
	if !slices.ContainsFunc(own, func(f file) bool { return f.Name == chartFile }) {
		l.found.Add(diag.Errorf(diag.Pos{File: dir}, "chart/missing", "there is no %s in %s", chartFile, dir))
		return nil
	}
	c, err := loader.LoadFiles(own)
	if err != nil {
		l.found.Add(unloadable(dir, err))
		return nil
	}
	for _, f := range c.Raw {
		if f.Name == chartFile {
			l.dirs[f] = dir
		}
	}
	// Helm would run it and show the text to whoever installs the chart. Nobody does.
	c.Templates = slices.DeleteFunc(c.Templates, func(f *helm.File) bool { return strings.HasSuffix(f.Name, "NOTES.txt") })
	first := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(subs)) {
		sub := l.sub(path.Join(dir, "charts", name), subs[name])
		if sub == nil {
			continue
		}
		id := sub.Name() + " " + sub.Metadata.Version
		if before, ok := first[id]; ok {
			l.found.Add(diag.Errorf(diag.Pos{File: path.Join(dir, "charts", name)}, "chart/invalid", "subchart %s is there twice, first in %s", id, before))
		}
		first[id] = path.Join(dir, "charts", name)
		c.AddDependency(sub)
	}
	return c
}

// split parts a chart's own files from those of its subcharts. As with helm, what starts with _ or . in charts/ does not count;
// neither does a loose file that is not an archive.
func split(files []file) (own []file, subs map[string][]file) {
	subs = map[string][]file{}
	for _, f := range files {
		inside, ok := strings.CutPrefix(f.Name, "charts/")
		name, rest, deeper := strings.Cut(inside, "/")
		switch {
		case !ok:
			own = append(own, f)
		case name == "" || strings.ContainsRune("_.", rune(name[0])):
		case deeper:
			subs[name] = append(subs[name], &loader.BufferedFile{Name: rest, Data: f.Data})
		case path.Ext(name) == ".tgz":
			subs[name] = []file{{Name: name, Data: f.Data}}
		}
	}
	return own, subs
}

// sub loads a subchart, from its folder or its archive. Places in an archive are named as if it were a folder.
func (l *loading) sub(dir string, files []file) *helm.Chart {
	if path.Ext(dir) != ".tgz" || len(files) != 1 || files[0].Name != path.Base(dir) {
		return l.load(dir, files)
	}
	packed, err := loader.LoadArchiveFiles(bytes.NewReader(files[0].Data))
	if err != nil {
		l.found.Add(diag.Errorf(diag.Pos{File: dir}, "chart/invalid", "not the archive of a chart: %v", err))
		return nil
	}
	for _, f := range packed {
		l.left -= len(f.Data)
		if bad := tooLarge(dir, path.Join(dir, f.Name), len(f.Data), l.left); bad.Failed() {
			l.found.Add(bad...)
			return nil
		}
	}
	return l.load(dir, packed)
}

// checkCharts looks at what is left once conditions and tags have switched subcharts off: a subchart that is off may be missing.
func (r *release) checkCharts() diag.List {
	var found diag.List
	at := diag.Pos{File: r.file(r.chart, chartFile)}
	if r.chart.Metadata.Type == "library" {
		found.Add(diag.Errorf(at, "chart/invalid", "%s is a library chart, which renders nothing by itself", r.chart.Name()))
	}
	if want := r.chart.Metadata.KubeVersion; want != "" && !chartutil.IsCompatibleRange(want, kubeVersion) {
		found.Add(diag.Errorf(at, "chart/kube-version", "the chart wants Kubernetes %q, and charts are rendered for %s", want, kubeVersion))
	}
	for _, c := range r.charts() {
		found.Add(r.checkDependencies(c)...)
	}
	return found
}

func (r *release) checkDependencies(c *helm.Chart) diag.List {
	var found diag.List
	at := diag.Pos{File: r.file(c, chartFile)}
	there := map[string]*helm.Chart{}
	for _, d := range c.Dependencies() {
		if there[d.Name()] != nil {
			found.Add(diag.Errorf(at, "chart/invalid", "two subcharts are called %q, in %s and %s", d.Name(), r.file(there[d.Name()], ""), r.file(d, "")).
				Hintf("give one of them an alias in the dependencies of %s", chartFile))
		}
		there[d.Name()] = d
	}
	for _, want := range c.Metadata.Dependencies { // names are aliases by now
		got := there[want.Name]
		var instead string
		switch {
		case got == nil:
		case want.Version == "" || chartutil.IsCompatibleRange(want.Version, got.Metadata.Version):
			continue
		default:
			instead = fmt.Sprintf(", only %s", got.Metadata.Version)
		}
		found.Add(diag.Errorf(at, "chart/missing-dependency", "charts/ does not hold dependency %q in version %q%s", want.Name, want.Version, instead).
			Hintf("vendor it: helm dependency update %s", r.file(c, "")))
	}
	return found
}
