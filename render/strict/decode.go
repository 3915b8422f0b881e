package strict

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"copyhold.dev/copyhold/render/diag"
)

// Decode fills the struct that into points to, and finds every key that does not fit it. The struct is filled only when the
// result has no error. Fields are matched by their json tag, exactly. noun starts the names of the findings (request/unknown-field).
func (d Document) Decode(noun string, into any) diag.List {
	root := d.tree()
	w := walker{file: d.File, noun: noun}
	w.walk(root, reflect.TypeOf(into).Elem())
	if w.found.Failed() {
		return w.found
	}
	if err := fill(root, reflect.ValueOf(into).Elem()); err != nil { // the walk above is meant to leave nothing for this
		w.found.Add(diag.Errorf(d.At(), noun+"/unreadable", "%v", err))
	}
	return w.found
}

// Value is the document as maps, lists, strings, booleans, nil and json.Number.
func (d Document) Value() map[string]any { return value(d.tree()).(map[string]any) }

// Within is what is at a path of a value, in mappings and lists; nil when nothing is.
func Within(v any, path []string) any {
	for _, key := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

type walker struct {
	file  string
	noun  string
	trail []step // down to the value that is looked at
	found diag.List
}

// step is a key of a mapping, or without one the place in a list.
type step struct {
	key string
	at  int
}

// path is the trail in words; few are ever needed.
func (w *walker) path() string {
	var b strings.Builder
	for _, s := range w.trail {
		switch {
		case s.key == "":
			b.WriteString("[" + strconv.Itoa(s.at) + "]")
		case b.Len() > 0:
			b.WriteString("." + s.key)
		default:
			b.WriteString(s.key)
		}
	}
	return b.String()
}

func (w *walker) down(s step, n *node, t reflect.Type) {
	w.trail = append(w.trail, s)
	w.walk(n, t)
	w.trail = w.trail[:len(w.trail)-1]
}

// walk compares a node with the type it is to fill.
func (w *walker) walk(n *node, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.isNull() { // an empty value leaves the field unset, as it does in Kubernetes
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		w.fields(n, t)
	case reflect.Map:
		if !w.want(n, "a mapping (key: value)", n.kind == mappingKind) {
			return
		}
		for i := 0; i+1 < len(n.content); i += 2 {
			w.down(step{key: n.content[i].value}, &n.content[i+1], t.Elem())
		}
	case reflect.Slice:
		if !w.want(n, "a list", n.kind == listKind) {
			return
		}
		for i := range n.content {
			w.down(step{at: i}, &n.content[i], t.Elem())
		}
	case reflect.String:
		w.text(n)
	case reflect.Bool:
		w.want(n, "true or false", n.kind == scalarKind && n.tag == boolTag)
	case reflect.Int, reflect.Int32, reflect.Int64:
		if w.want(n, "a whole number", n.kind == scalarKind && n.tag == intTag) {
			_, err := whole(n, t)
			w.want(n, "a whole number of a sensible size", err == nil)
		}
	case reflect.Interface:
	default:
		panic("strict: no rule for a field of type " + t.String())
	}
}

func whole(n *node, t reflect.Type) (int64, error) {
	return strconv.ParseInt(n.value, 10, t.Bits())
}

func (w *walker) fields(n *node, t reflect.Type) {
	if !w.want(n, "a mapping (key: value)", n.kind == mappingKind) {
		return
	}
	known := fieldsOf(t)
	for i := 0; i+1 < len(n.content); i += 2 {
		k := &n.content[i]
		f, ok := known.byName[k.value]
		if !ok {
			where := ""
			if path := w.path(); path != "" {
				where = " in " + path
			}
			f := diag.Errorf(k.pos(w.file), w.noun+"/unknown-field", "unknown field %q%s%s", clip(k.value), where, diag.OneOf(known.names))
			if near := diag.Nearest(k.value, known.names); near != "" {
				f = f.Hintf("did you mean %q?", near)
			}
			w.found.Add(f)
			continue
		}
		w.down(step{key: k.value}, &n.content[i+1], f.kind)
	}
}

// text wants a string. An unquoted 1.30 is the number 1.3 to YAML, so a number where text belongs is refused, not converted.
func (w *walker) text(n *node) {
	if n.kind == scalarKind && (n.tag == strTag || n.tag == timestampTag) {
		return
	}
	f := diag.Errorf(n.pos(w.file), w.noun+"/wrong-type", "%swant a string, got %s", w.label(), n.describe())
	if n.kind == scalarKind {
		f = f.Hintf("quote it: %q", n.value)
	}
	w.found.Add(f)
}

func (w *walker) want(n *node, what string, ok bool) bool {
	if !ok {
		w.found.Add(diag.Errorf(n.pos(w.file), w.noun+"/wrong-type", "%swant %s, got %s", w.label(), what, n.describe()))
	}
	return ok
}

func (w *walker) label() string {
	if path := w.path(); path != "" {
		return path + ": "
	}
	return ""
}

type fields struct {
	byName map[string]field
	names  []string
}

type field struct {
	kind  reflect.Type
	index []int // as reflect.Value.FieldByIndex takes it
}

// knownFields keeps the fields of a type: a repository has thousands of files of a few types.
var knownFields sync.Map // reflect.Type to *fields

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// fieldsOf are the json fields of a struct, and their names in order. They are shared: do not change them.
func fieldsOf(t reflect.Type) *fields {
	if f, ok := knownFields.Load(t); ok {
		return f.(*fields)
	}
	f := &fields{byName: map[string]field{}}
	f.add(t, nil)
	slices.Sort(f.names)
	knownFields.Store(t, f)
	return f
}

func (f *fields) add(t reflect.Type, index []int) {
	for i := range t.NumField() {
		x := t.Field(i)
		at := append(slices.Clone(index), i)
		name, _, _ := strings.Cut(x.Tag.Get("json"), ",")
		switch {
		case x.Anonymous && name == "": // the fields of an embedded struct are the struct's own
			f.add(x.Type, at)
		case name != "" && name != "-":
			if reflect.PointerTo(x.Type).Implements(unmarshaler) {
				panic("strict: " + x.Type.String() + " would read itself")
			}
			f.byName[name] = field{x.Type, at}
			f.names = append(f.names, name)
		}
	}
}
