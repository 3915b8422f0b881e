package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/kustomize/api/types"

	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/strict"
)

// fields are what an overlay may hold.
type fields struct {
	APIVersion            string                   `json:"apiVersion"`
	Kind                  string                   `json:"kind"`
	Metadata              *types.ObjectMeta        `json:"metadata"`
	PatchesStrategicMerge []string                 `json:"patchesStrategicMerge"`
	Patches               []types.Patch            `json:"patches"`
	Labels                []types.Label            `json:"labels"`
	CommonAnnotations     map[string]string        `json:"commonAnnotations"`
	PatchesJSON6902       []types.Patch            `json:"patchesJson6902"`
	Replacements          []types.ReplacementField `json:"replacements"`
}

const (
	fetches   = "it brings in objects, and can fetch them from elsewhere"
	adds      = "it adds objects"
	runs      = "it can run programs"
	helm      = "it runs helm, and can fetch charts"
	renames   = "it renames objects"
	misreads  = "it changes how objects and patches are read"
	usePatch  = "write a patch instead"
	useLabels = "use labels with pairs: they go on the object alone"
)

// forbidden are kustomize's other fields: why an overlay may not hold them, and the way out where there is one.
var forbidden = map[string]struct{ why, hint string }{
	"bases":                       {fetches, ""},
	"resources":                   {fetches, ""},
	"components":                  {fetches, "merge the other component into this one"},
	"configMapGenerator":          {adds, ""},
	"secretGenerator":             {adds, ""},
	"generatorOptions":            {adds, ""},
	"generators":                  {runs, ""},
	"transformers":                {runs, usePatch},
	"validators":                  {runs, ""},
	"helmCharts":                  {helm, ""},
	"helmChartInflationGenerator": {helm, ""},
	"helmGlobals":                 {helm, ""},
	"namePrefix":                  {renames, ""},
	"nameSuffix":                  {renames, ""},
	"namespace":                   {"it moves objects to another namespace", ""},
	"openapi":                     {misreads, "use a JSON 6902 patch for lists"},
	"crds":                        {misreads, "use a JSON 6902 patch for lists"},
	"configurations":              {misreads, ""},
	"commonLabels":                {"it writes selectors and pod templates too, which rolls workers", useLabels},
	"images":                      {"it writes into every object that looks like a pod", usePatch},
	"imageTags":                   {"it writes into every object that looks like a pod", usePatch},
	"replicas":                    {"the number of machines is the request's", ""},
	"vars":                        {"it writes wherever its name stands, and is deprecated", "use replacements"},
	"sortOptions":                 {"the order of objects is fixed", ""},
	"buildMetadata":               {"it writes notes that change with the tool", ""},
}

// fileNames are the names kustomize looks for.
var fileNames = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// Load reads the overlay in dir, a slash-separated path in the tree, which is the repository's root. All that is wrong with it is
// in the list; with an error in it, the Overlay is of no use. Only files inside dir are read. The error is for a tree that cannot be read.
func Load(tree fs.FS, dir string) (Overlay, diag.List, error) {
	l := &loader{tree: tree, dir: dir}
	if err := l.load(); err != nil {
		return Overlay{}, nil, fmt.Errorf("reading overlay: %w", err)
	}
	if l.found.Failed() {
		return Overlay{}, l.found.Sorted(), nil
	}
	return l.out, l.found.Sorted(), nil
}

// loader collects what is in one overlay, and what is wrong with it.
type loader struct {
	tree  fs.FS
	dir   string
	doc   strict.Document // the kustomization file
	out   Overlay
	found diag.List
}

func (l *loader) load() error {
	data, err := l.kustomization()
	if err != nil || l.found.Failed() {
		return err
	}
	docs, bad := strict.Parse(l.out.file, data)
	l.found.Add(bad...)
	if bad.Failed() {
		return nil
	}
	if len(docs) != 1 {
		l.found.Add(diag.Errorf(diag.Pos{File: l.out.file}, "overlay/documents", "%d documents, want one", len(docs)))
		return nil
	}
	l.doc = docs[0]
	l.checkKind()
	refused := l.checkFields()
	var f fields
	bad = l.doc.Decode("overlay", &f)
	l.found.Add(slices.DeleteFunc(slices.Clone(bad), func(f diag.Finding) bool { return refused[f.Pos] })...)
	if bad.Failed() { // nothing is filled in
		return nil
	}
	l.checkLabels(f.Labels)
	l.out.labels, l.out.annotations = f.Labels, f.CommonAnnotations
	return l.entries(f)
}

// kustomization reads the one file that says what the overlay does.
func (l *loader) kustomization() ([]byte, error) {
	if !fs.ValidPath(l.dir) {
		l.found.Add(diag.Errorf(diag.Pos{File: l.dir}, "overlay/outside", "overlay %q is not a folder of this repository", l.dir).
			Hintf("write its path from the repository's root, without a leading or trailing slash"))
		return nil, nil
	}
	var data []byte
	for _, name := range fileNames {
		file := path.Join(l.dir, name)
		info, err := fs.Stat(l.tree, file)
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir():
		case err != nil:
			return nil, err
		case l.out.file != "":
			l.found.Add(diag.Errorf(diag.Pos{File: file}, "overlay/ambiguous", "the overlay has a %s as well, want one", path.Base(l.out.file)).
				Hintf("delete one of the two"))
		default:
			if data, err = fs.ReadFile(l.tree, file); err != nil {
				return nil, err
			}
			l.out.file = file
		}
	}
	if l.out.file == "" {
		l.found.Add(diag.Errorf(diag.Pos{File: l.dir}, "overlay/missing", "overlay %q has no %s", l.dir, fileNames[0]).
			Hintf("write one with kind: %s and apiVersion: %s", types.ComponentKind, types.ComponentVersion))
	}
	return data, nil
}

func (l *loader) checkKind() {
	if kind := l.doc.Text("kind"); kind != types.ComponentKind {
		l.found.Add(diag.Errorf(l.doc.At("kind"), "overlay/kind", "kind %q, want %s", kind, types.ComponentKind).
			Hintf("a Component changes the objects it is given; a Kustomization brings its own"))
	}
	if v := l.doc.Text("apiVersion"); v != types.ComponentVersion {
		l.found.Add(diag.Errorf(l.doc.At("apiVersion"), "overlay/api-version", "apiVersion %q, want %s", v, types.ComponentVersion))
	}
}

// checkFields finds the fields an overlay may not hold, and returns where they stand.
func (l *loader) checkFields() map[diag.Pos]bool {
	at := map[diag.Pos]bool{}
	for _, name := range slices.Sorted(maps.Keys(forbidden)) {
		if l.doc.Has(name) {
			at[l.doc.KeyAt(name)] = true
			l.refuse(name, forbidden[name].why, forbidden[name].hint, name)
		}
	}
	return at
}

func (l *loader) refuse(field, why, hint string, path ...string) {
	if hint == "" {
		hint = "an overlay holds patches, labels, commonAnnotations and replacements"
	}
	l.found.Add(diag.Errorf(l.doc.KeyAt(path...), "overlay/forbidden-field", "field %q is not for overlays: %s", field, why).Hintf("%s", hint))
}

// checkLabels finds labels that are to go where they make Cluster API or Kubernetes replace machines and pods.
func (l *loader) checkLabels(all []types.Label) {
	for i, label := range all {
		for name, on := range map[string]bool{"includeSelectors": label.IncludeSelectors, "includeTemplates": label.IncludeTemplates} {
			if on {
				l.refuse(name, forbidden["commonLabels"].why, useLabels, "labels", strconv.Itoa(i), name)
			}
		}
	}
}

// checkSelector finds what kustomize cannot match with. pos gives places, at is the path of the selector.
func (l *loader) checkSelector(pos func(path ...string) diag.Pos, s *types.Selector, at ...string) {
	if s == nil {
		return
	}
	if _, err := types.NewSelectorRegex(s); err != nil {
		l.found.Add(diag.Errorf(pos(at...), "overlay/selector", "not a regular expression: %v", err))
	}
	for field, text := range map[string]string{"labelSelector": s.LabelSelector, "annotationSelector": s.AnnotationSelector} {
		place := pos(append(slices.Clone(at), field)...)
		parsed, err := labels.Parse(text)
		if err != nil {
			l.found.Add(diag.Errorf(place, "overlay/selector", "not a selector: %v", err))
			continue
		}
		requirements, _ := parsed.Requirements()
		for _, r := range requirements {
			if r.Operator() == selection.GreaterThan || r.Operator() == selection.LessThan { // kustomize prints what it cannot compare
				l.found.Add(diag.Errorf(place, "overlay/selector", "%q compares numbers, want one of =, !=, in, notin, exists", text))
			}
		}
	}
}
