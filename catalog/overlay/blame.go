package overlay

import (
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
)

// failure says which entry kustomize fails at, and at which object. Its errors tell neither, so both are searched for, by halves:
// what fails with the first n entries, or objects, fails with more of them.
func (o Overlay) failure(objects []*manifest.Object, err error) diag.Finding {
	fails := func(entries []entry, objects []*manifest.Object) bool {
		_, e := o.run(entries, objects)
		return e != nil
	}
	pos := diag.Pos{File: o.file}
	n := sort.Search(len(o.entries), func(n int) bool { return fails(o.entries[:n], objects) })
	if n > 0 {
		pos = o.entries[n-1].pos
	}
	if _, e := o.run(o.entries[:n], objects); e != nil { // the error given may be a later entry's: all are read before any takes effect
		err = e
	}
	f := diag.Errorf(pos, "overlay/failed", "%s", reason(err))
	if n > 0 && o.entries[n-1].replacement != nil { // it is about two objects, wherever they stand
		return f
	}
	if i := sort.Search(len(objects), func(i int) bool { return fails(o.entries[:n], objects[:i+1]) }); i < len(objects) {
		f.Message = fmt.Sprintf("%s: %s", manifest.IDOf(objects[i]), f.Message)
	}
	return f
}

// wrapping is what kustomize puts before a cause: where in the file system it was, and what it was given.
var wrapping = regexp.MustCompile("(?s)^(accumulating (resources|components)( from '[^']*')?|recursed (accumulation of|merging from) path '[^']*'|" +
	"accumulateDirectory|trouble configuring builtin [A-Za-z0-9]+ with config: `.*?\n`|MalformedYAMLError): ")

// reason is the innermost cause of kustomize's error, in one line.
func reason(err error) string {
	text := strings.TrimSuffix(err.Error(), " in File: objects.yaml")
	for wrapping.MatchString(text) {
		text = text[len(wrapping.FindString(text)):]
		if inner, err := strconv.Unquote(text); err == nil { // what goes wrong in a component
			text = inner
		}
	}
	text, _, _ = strings.Cut(text, " from [patch: ") // the whole patch
	text = strings.Join(strings.Fields(text), " ")
	const most = 300
	if utf8.RuneCountInString(text) > most {
		text = string([]rune(text)[:most]) + "..."
	}
	return text
}

// key is what an overlay must leave alone: which object it is, and its version.
type key struct {
	manifest.ID
	apiVersion string
}

func keyOf(o *manifest.Object) key { return key{manifest.IDOf(o), o.GetAPIVersion()} }

// identities finds the objects that come out as another object, or not at all. Kustomize keeps their order.
func (o Overlay) identities(in, out []*manifest.Object) diag.List {
	after := map[key]bool{}
	for _, obj := range out {
		after[keyOf(obj)] = true
	}
	var lost []*manifest.Object
	for i, obj := range in {
		// With as many objects as before each is at its place, and two that swap names are found as well.
		if !after[keyOf(obj)] || len(in) == len(out) && keyOf(obj) != keyOf(out[i]) {
			lost = append(lost, obj)
		}
	}
	const most = 20 // one patch can do this to every object there is
	var found diag.List
	for i, obj := range lost {
		if i == most {
			found.Add(diag.Errorf(diag.Pos{File: o.file}, "overlay/identity", "%d more objects are removed, or become other objects", len(lost)-most))
			break
		}
		found.Add(o.identity(obj))
	}
	return found
}

// identity says what becomes of one object, and by which entry. It runs for this object alone, so nothing can stand in for it.
func (o Overlay) identity(obj *manifest.Object) diag.Finding {
	become := func(n int) string {
		out, err := o.run(o.entries[:n], []*manifest.Object{obj})
		if err != nil { // a replacement whose source is another object
			return ""
		}
		return change(keyOf(obj), out)
	}
	pos := diag.Pos{File: o.file}
	n := sort.Search(len(o.entries), func(n int) bool { return become(n) != "" })
	if n > 0 {
		pos = o.entries[n-1].pos
	}
	what := become(n)
	if what == "" {
		pos, what = diag.Pos{File: o.file}, "becomes another object"
	}
	return diag.Errorf(pos, "overlay/identity", "%s %s", manifest.IDOf(obj), what).
		Hintf("an overlay may change what is in an object, not its apiVersion, kind, namespace or name")
}

// change is what became of an object, in words, or "" when it is still the same one.
func change(was key, out []*manifest.Object) string {
	if len(out) == 0 {
		return "is removed"
	}
	is := keyOf(out[0])
	var parts []string
	for _, f := range []struct{ field, was, is string }{
		{"apiVersion", was.apiVersion, is.apiVersion},
		{"kind", was.Kind, is.Kind},
		{"metadata.namespace", was.Namespace, is.Namespace},
		{"metadata.name", was.Name, is.Name},
	} {
		if f.was != f.is {
			parts = append(parts, fmt.Sprintf("gets %s %q", f.field, f.is))
		}
	}
	return strings.Join(parts, " and ")
}
