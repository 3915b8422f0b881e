package overlay

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/api/types"

	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/strict"
)

// entries reads every patch and replacement, in the order in which kustomize lets them take effect.
func (l *loader) entries(f fields) error {
	for i, text := range f.PatchesStrategicMerge {
		p := types.Patch{Path: text}
		if strings.Contains(text, "\n") || strings.HasPrefix(text, "{") { // not a file, the patch itself
			p = types.Patch{Patch: text}
		}
		if err := l.patch(p, merge, "patchesStrategicMerge", strconv.Itoa(i)); err != nil {
			return err
		}
	}
	for i, p := range f.Patches {
		if err := l.patch(p, merge|operations, "patches", strconv.Itoa(i)); err != nil {
			return err
		}
	}
	for i, p := range f.PatchesJSON6902 {
		if err := l.patch(p, operations, "patchesJson6902", strconv.Itoa(i)); err != nil {
			return err
		}
	}
	for i, r := range f.Replacements {
		if err := l.replacement(r, "replacements", strconv.Itoa(i)); err != nil {
			return err
		}
	}
	return nil
}

// form is how a patch may be written: as a part of an object, as a list of operations.
type form int

const (
	merge form = 1 << iota
	operations
)

// operation is one step of a JSON 6902 patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

func (l *loader) patch(p types.Patch, allowed form, at ...string) error {
	l.checkSelector(l.doc.At, p.Target, append(at, "target")...)
	t, err := l.text(p, "patch", at...)
	if t == nil {
		return err
	}
	switch {
	case t.list && allowed&operations == 0:
		l.bad(t.pos(t.docs[0].At()), "a JSON 6902 patch, want a strategic merge patch")
	case !t.list && allowed&merge == 0:
		l.bad(t.pos(t.docs[0].At()), "a strategic merge patch, want a JSON 6902 patch")
	case t.list && p.Target == nil:
		l.bad(t.pos(t.docs[0].At()), "a JSON 6902 patch without a target: nothing says which objects it is for")
	case t.list:
		var steps struct {
			Patch []operation `json:"patch"`
		}
		found := t.placed(t.docs[0].Decode("overlay", &steps))
		l.found.Add(found...)
		l.add(entry{pos: t.pos(t.docs[0].At("patch")), late: allowed&merge == 0}, p, t.docs[0].Value()["patch"])
	case p.Target != nil && len(t.docs) > 1:
		l.bad(t.pos(t.docs[1].At()), "%d strategic merge patches for one target, want one", len(t.docs))
	default:
		for _, d := range t.docs {
			l.mergePatch(t.pos(d.At()), d, p)
		}
	}
	return nil
}

// mergePatch takes one strategic merge patch. Without a target it is for the object it names.
func (l *loader) mergePatch(pos diag.Pos, d strict.Document, p types.Patch) {
	apiVersion, kind, namespace, name := d.Text("apiVersion"), d.Text("kind"), d.Text("metadata", "namespace"), d.Text("metadata", "name")
	switch {
	case p.Target == nil && (apiVersion == "" || kind == "" || name == ""):
		l.bad(pos, "a strategic merge patch without a target, want its apiVersion, kind and metadata.name")
	case kind == "" || name == "":
		l.bad(pos, "a strategic merge patch without kind or metadata.name: kustomize wants both, and goes by the target")
	default:
		l.add(entry{pos: pos, object: idOf(apiVersion, kind, namespace, name)}, p, d.Value())
	}
}

func (l *loader) bad(pos diag.Pos, format string, args ...any) {
	l.found.Add(diag.Errorf(pos, "overlay/patch", format, args...))
}

func (l *loader) add(e entry, p types.Patch, content any) {
	j, err := json.Marshal(hide(content))
	if err != nil {
		panic(err) // maps, lists and scalars only
	}
	e.patch = types.Patch{Patch: string(j), Target: p.Target, Options: p.Options}
	l.out.entries = append(l.out.entries, e)
}

// replacement takes one replacement, or those in the file it names.
func (l *loader) replacement(r types.ReplacementField, at ...string) error {
	if r.Path == "" {
		l.addReplacement(l.doc.At, r.Replacement, at...)
		return nil
	}
	if r.Source != nil || r.SourceValue != nil || len(r.Targets) > 0 {
		l.found.Add(diag.Errorf(l.doc.At(at...), "overlay/replacement", "a path and a replacement, want one of the two"))
		return nil
	}
	t, err := l.text(types.Patch{Path: r.Path}, "replacements", at...)
	if t == nil {
		return err
	}
	for _, d := range t.docs {
		var one types.Replacement
		var all struct {
			Replacements []types.Replacement `json:"replacements"`
		}
		into := any(&one)
		if t.list {
			into = &all
		}
		bad := t.placed(d.Decode("overlay", into))
		if l.found.Add(bad...); bad.Failed() {
			continue
		}
		pos := func(path ...string) diag.Pos { return t.pos(d.At(path...)) }
		if !t.list {
			l.addReplacement(pos, one)
		}
		for i, r := range all.Replacements {
			l.addReplacement(pos, r, "replacements", strconv.Itoa(i))
		}
	}
	return nil
}

// addReplacement takes one replacement. pos gives places, at is its path.
func (l *loader) addReplacement(pos func(path ...string) diag.Pos, r types.Replacement, at ...string) {
	bad := func(what string) { l.found.Add(diag.Errorf(pos(at...), "overlay/replacement", "%s", what)) }
	if (r.Source == nil) == (r.SourceValue == nil) {
		bad("want either source or sourceValue")
	}
	if len(r.Targets) == 0 {
		bad("a replacement without targets")
	}
	for i, t := range r.Targets {
		if t == nil || t.Select == nil {
			bad("a target without select")
			continue
		}
		place := append(slices.Clone(at), "targets", strconv.Itoa(i))
		l.checkSelector(pos, t.Select, append(place, "select")...)
		for k, s := range t.Reject {
			l.checkSelector(pos, s, append(place, "reject", strconv.Itoa(k))...)
		}
	}
	l.out.entries = append(l.out.entries, entry{pos: pos(at...), replacement: &r, late: true})
}
