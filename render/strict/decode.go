package strict

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"copyhold.dev/copyhold/render/diag"
)

// Decode fills the struct that into points to, and finds every key that does not fit it. The struct is filled only when the
// result has no error. Fields are matched by their json tag, exactly. noun starts the names of the findings (request/unknown-field).
func (d Document) Decode(noun string, into any) diag.List {
	w := walker{file: d.File, noun: noun}
	w.walk(d.root, reflect.TypeOf(into).Elem(), "")
	if w.found.Failed() {
		return w.found
	}
	data, err := json.Marshal(value(d.root))
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, into)
	}
	if err != nil { // the walk above is meant to leave nothing for this
		w.found.Add(diag.Errorf(d.At(), noun+"/unreadable", "%v", err))
	}
	return w.found
}

// Value is the document as maps, lists, strings, booleans, nil and json.Number.
func (d Document) Value() map[string]any { return value(d.root).(map[string]any) }

type walker struct {
	file  string
	noun  string
	found diag.List
}

// walk compares a node with the type it is to fill. path is the node's place in words, for messages.
func (w *walker) walk(n *yaml.Node, t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if isNull(n) { // an empty value leaves the field unset, as it does in Kubernetes
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		w.fields(n, t, path)
	case reflect.Map:
		if !w.want(n, path, "a mapping (key: value)", n.Kind == yaml.MappingNode) {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			w.walk(n.Content[i+1], t.Elem(), join(path, n.Content[i].Value))
		}
	case reflect.Slice:
		if !w.want(n, path, "a list", n.Kind == yaml.SequenceNode) {
			return
		}
		for i, c := range n.Content {
			w.walk(c, t.Elem(), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.String:
		w.text(n, path)
	case reflect.Bool:
		w.want(n, path, "true or false", n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool")
	case reflect.Int, reflect.Int32, reflect.Int64:
		ok := n.Kind == yaml.ScalarNode && n.ShortTag() == "!!int"
		if w.want(n, path, "a whole number", ok) {
			w.want(n, path, "a whole number of a sensible size", reflect.New(t).Elem().CanInt() && fits(n.Value, t))
		}
	case reflect.Interface:
	default:
		panic("strict: no rule for a field of type " + t.String())
	}
}

func fits(text string, t reflect.Type) bool {
	return json.Unmarshal([]byte(strings.TrimPrefix(text, "+")), reflect.New(t).Interface()) == nil
}

func (w *walker) fields(n *yaml.Node, t reflect.Type, path string) {
	if !w.want(n, path, "a mapping (key: value)", n.Kind == yaml.MappingNode) {
		return
	}
	known, names := fieldsOf(t)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		ft, ok := known[k.Value]
		if !ok {
			where := ""
			if path != "" {
				where = " in " + path
			}
			f := diag.Errorf(pos(w.file, k), w.noun+"/unknown-field", "unknown field %q%s%s", clip(k.Value), where, diag.OneOf(names))
			if near := diag.Nearest(k.Value, names); near != "" {
				f = f.Hintf("did you mean %q?", near)
			}
			w.found.Add(f)
			continue
		}
		w.walk(v, ft, join(path, k.Value))
	}
}

type fields struct {
	types map[string]reflect.Type
	names []string
}

// knownFields keeps the fields of a type: a repository has thousands of files of a few types.
var knownFields sync.Map // reflect.Type to fields

// fieldsOf are the json fields of a struct, and their names in order. They are shared: do not change them.
func fieldsOf(t reflect.Type) (map[string]reflect.Type, []string) {
	if f, ok := knownFields.Load(t); ok {
		return f.(fields).types, f.(fields).names
	}
	f := fields{types: map[string]reflect.Type{}}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		switch {
		case t.Field(i).Anonymous && name == "": // the fields of an embedded struct are the struct's own
			types, names := fieldsOf(t.Field(i).Type)
			maps.Copy(f.types, types)
			f.names = append(f.names, names...)
		case name != "" && name != "-":
			f.types[name] = t.Field(i).Type
			f.names = append(f.names, name)
		}
	}
	slices.Sort(f.names)
	knownFields.Store(t, f)
	return f.types, f.names
}

// text wants a string. An unquoted 1.30 is the number 1.3 to YAML, so a number where text belongs is refused, not converted.
func (w *walker) text(n *yaml.Node, path string) {
	if n.Kind == yaml.ScalarNode {
		switch n.ShortTag() {
		case "!!str", "!!timestamp":
			return
		}
	}
	f := diag.Errorf(pos(w.file, n), w.noun+"/wrong-type", "%swant a string, got %s", label(path), describe(n))
	if n.Kind == yaml.ScalarNode {
		f = f.Hintf("quote it: %q", n.Value)
	}
	w.found.Add(f)
}

func (w *walker) want(n *yaml.Node, path, what string, ok bool) bool {
	if !ok {
		w.found.Add(diag.Errorf(pos(w.file, n), w.noun+"/wrong-type", "%swant %s, got %s", label(path), what, describe(n)))
	}
	return ok
}

func label(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// value converts a node that refuse has passed.
func value(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = value(n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		l := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			l = append(l, value(c))
		}
		return l
	}
	v, _ := scalar(n)
	return v
}

// decimal is a number as JSON writes it. YAML knows more (0x1f, 0o17, 017, 1_000, .inf), and its versions disagree on them.
var decimal = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

func scalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true"), nil
	case "!!int", "!!float":
		if !decimal.MatchString(n.Value) {
			return nil, fmt.Errorf("the number %s is read differently by different tools", clip(n.Value))
		}
		return json.Number(strings.TrimPrefix(n.Value, "+")), nil
	}
	return n.Value, nil
}
