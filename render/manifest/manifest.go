// Package manifest holds Kubernetes objects as they are read, sorted and written.
// It knows what identifies an object and in which order objects go out; it never decides what is in them.
//
// Parse reads, New sorts, Set.WriteYAML writes.
package manifest

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"copyhold.dev/copyhold/render/strict"
)

// Object is one Kubernetes object. Numbers in it are int64 or float64.
type Object = unstructured.Unstructured

// ID names an object within one management cluster. The version is left out: an object keeps its identity when it moves on.
type ID struct {
	Group, Kind, Namespace, Name string
}

// IDOf is the identity of an object.
func IDOf(o *Object) ID {
	gvk := o.GroupVersionKind()
	return ID{gvk.Group, gvk.Kind, o.GetNamespace(), o.GetName()}
}

// String gives Kind.group namespace/name, as kubectl prints it.
func (id ID) String() string {
	name := id.Name
	if id.Namespace != "" {
		name = id.Namespace + "/" + id.Name
	}
	return schema.GroupKind{Group: id.Group, Kind: id.Kind}.String() + " " + name
}

// before are the kinds that others wait for, in order; a kind that is not listed comes after them.
var before = map[string]int{"Namespace": 1, "ResourceQuota": 2, "Role": 3, "RoleBinding": 4, "SubnetClaim": 5, "ClusterClass": 6}

func compare(a, b *Object) int {
	rank := func(o *Object) int {
		switch {
		case before[o.GetKind()] > 0:
			return before[o.GetKind()]
		case o.GetKind() == "Cluster":
			return 100
		}
		return 50
	}
	x, y := IDOf(a), IDOf(b)
	return cmp.Or(
		cmp.Compare(rank(a), rank(b)),
		cmp.Compare(x.Kind, y.Kind),
		cmp.Compare(x.Group, y.Group),
		cmp.Compare(x.Namespace, y.Namespace),
		cmp.Compare(x.Name, y.Name),
	)
}

// Set is a sorted set of objects; no two have the same ID. The zero value is empty. A Set is not changed once made.
type Set struct {
	objects []*Object
}

// New sorts objects into a set. Two objects with one ID are an error.
func New(objects ...*Object) (Set, error) {
	s := slices.Clone(objects)
	slices.SortStableFunc(s, compare)
	for i := 1; i < len(s); i++ {
		if IDOf(s[i-1]) == IDOf(s[i]) {
			return Set{}, fmt.Errorf("%s is there twice", IDOf(s[i]))
		}
	}
	return Set{objects: s}, nil
}

// Objects are the objects in order. They are shared: do not change them.
func (s Set) Objects() []*Object { return slices.Clone(s.objects) }

// Len is the number of objects.
func (s Set) Len() int { return len(s.objects) }

// Parse reads a stream of YAML or JSON documents. Empty documents are left out, a List is taken apart, a repeated key is an error.
func Parse(data []byte) ([]*Object, error) {
	var out []*Object
	r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		values, err := apart(doc)
		for _, v := range values {
			if err != nil {
				break
			}
			var objects []*Object
			objects, err = one(v)
			out = append(out, objects...)
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
	}
}

// apart splits a document that is a stream of JSON values, as jq prints them, and refuses others that are several: the YAML parser would
// read the first and drop the rest.
func apart(doc []byte) ([][]byte, error) {
	braces := bytes.HasPrefix(bytes.TrimSpace(doc), []byte("{"))
	switch {
	case !braces && bytes.Contains(doc, []byte("\n...")):
		return [][]byte{doc}, alone(doc)
	case !braces:
		return [][]byte{doc}, nil
	}
	var out [][]byte
	for d := json.NewDecoder(bytes.NewReader(doc)); ; {
		var v json.RawMessage
		err := d.Decode(&v)
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil && len(out) == 0: // YAML with braces
			return [][]byte{doc}, alone(doc)
		case err != nil:
			return nil, err
		}
		out = append(out, v)
	}
}

// alone refuses a document that another follows without --- between them.
func alone(doc []byte) error {
	d := kyaml.NewDecoder(bytes.NewReader(doc))
	var n kyaml.Node
	if err := d.Decode(&n); err != nil {
		return nil // said where it is read
	}
	if err := d.Decode(&n); !errors.Is(err, io.EOF) {
		return errors.New("something follows it without --- between them")
	}
	return nil
}

func one(doc []byte) ([]*Object, error) {
	j, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return nil, err
	}
	if string(j) == "null" {
		return nil, nil
	}
	if j[0] != '{' {
		return nil, errors.New("want an object (key: value), got other YAML")
	}
	o := &Object{}
	if err := o.UnmarshalJSON(j); err != nil {
		return nil, err
	}
	if !o.IsList() {
		if o.GetKind() == "List" {
			return nil, errors.New("a List without items")
		}
		return []*Object{o}, named(o)
	}
	list, err := o.ToList()
	if err != nil {
		return nil, err
	}
	out := make([]*Object, 0, len(list.Items))
	for i := range list.Items {
		if err := named(&list.Items[i]); err != nil {
			return nil, fmt.Errorf("item %d of a %s: %w", i+1, o.GetKind(), err)
		}
		out = append(out, &list.Items[i])
	}
	return out, nil
}

// named refuses what cannot be told from other objects.
func named(o *Object) error {
	switch {
	case o.GetKind() == "":
		return errors.New("an object without kind")
	case o.GetAPIVersion() == "" || o.GetName() == "":
		return fmt.Errorf("%s %q has no apiVersion or no metadata.name", o.GetKind(), o.GetName())
	}
	return nil
}

// YAML is one object as a YAML document, keys sorted, text that looks like another type quoted.
func YAML(o *Object) ([]byte, error) { return strict.Marshal(o.Object) }

// WriteYAML writes the objects as one stream of YAML documents.
func (s Set) WriteYAML(w io.Writer) error {
	for i, o := range s.objects {
		b, err := YAML(o)
		if err != nil {
			return fmt.Errorf("writing %s: %w", IDOf(o), err)
		}
		if i > 0 {
			b = append([]byte("---\n"), b...)
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSON writes the objects as one v1 List, indented.
func (s Set) WriteJSON(w io.Writer) error {
	list := unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	for _, o := range s.objects {
		list.Items = append(list.Items, *o)
	}
	j, err := list.MarshalJSON()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, j, "", "  "); err != nil {
		return err
	}
	_, err = b.WriteTo(w)
	return err
}

// Bare is a copy of an object without what an API server wrote into it, so that an exported class and the chart it came from
// are one and the same.
func Bare(o *Object) *Object {
	o = o.DeepCopy()
	delete(o.Object, "status")
	if m, ok := o.Object["metadata"].(map[string]any); ok {
		for _, k := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences", "selfLink", "finalizers", "deletionTimestamp", "deletionGracePeriodSeconds"} {
			delete(m, k)
		}
		if a, ok := m["annotations"].(map[string]any); ok {
			delete(a, "kubectl.kubernetes.io/last-applied-configuration")
			if len(a) == 0 {
				delete(m, "annotations")
			}
		}
	}
	return o
}
