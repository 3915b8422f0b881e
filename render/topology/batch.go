package topology

import (
	"context"
	"encoding/json"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/webhooks/admission"

	"copyhold.dev/copyhold/render/manifest"
)

// Admission is Cluster API's answer to one Cluster: the Cluster as it would be stored, or the problems for which it is refused.
type Admission struct {
	Cluster  *manifest.Object
	Problems []Problem
	Err      error
}

// batchSize is how many Clusters are defaulted and validated at a time. CEL rules have a budget for each variable, which the
// Clusters of a batch share; it allows for many times as many.
const batchSize = 250

// fewest is how many are not worth another batch when there is a refusal among them.
const fewest = 8

// AdmitAll is Admit for many Clusters of a class, in their order.
//
// Cluster API compiles a variable's schema and its CEL rules anew for each value it looks at, and most of the time goes there. So
// the values of a batch are handed to it as one list, each that is there once, under a schema that says "a list of what the class
// says": the engine is the same, and compiles once. What it accepts as a list it accepts one by one. Of Clusters that are alike but
// for their names and the values of their variables, one is validated for all (see shape). When anything in a batch is refused, it is
// halved until the refused ones are admitted one by one, so that no problem is ever told in other words. A test compares the two ways
// on random values.
func (c *Class) AdmitAll(objects []*manifest.Object) []Admission {
	out := make([]Admission, 0, len(objects))
	for len(objects) > 0 {
		n := min(batchSize, len(objects))
		out = append(out, c.admitBatch(objects[:n])...)
		objects = objects[n:]
	}
	return out
}

func (c *Class) admitBatch(objects []*manifest.Object) []Admission {
	if len(objects) > 1 {
		if out, ok := c.together(objects); ok {
			return out
		}
	}
	if half := len(objects) / 2; half >= fewest {
		return append(c.admitBatch(objects[:half]), c.admitBatch(objects[half:])...)
	}
	out := make([]Admission, len(objects))
	for i, o := range objects {
		out[i].Cluster, out[i].Problems, out[i].Err = c.Admit(o)
	}
	return out
}

// together admits a batch as one, or reports that it cannot.
func (c *Class) together(objects []*manifest.Object) ([]Admission, bool) {
	ctx := context.Background()
	lists := newLists(c.class)
	parts := make([]member, len(objects))
	fresh := map[string]*shape{}
	for i, o := range objects {
		p, ok := apart(o)
		if !ok {
			return nil, false
		}
		if p.shape = c.shapes.get(p.key); p.shape == nil {
			p.shape = fresh[p.key]
		}
		if p.shape == nil {
			if p.shape, ok = c.newShape(o, lists); !ok {
				return nil, false
			}
			fresh[p.key] = p.shape
		}
		if !lists.add(&p) {
			return nil, false
		}
		parts[i] = p
	}
	if !lists.admit(ctx, c.listClass()) {
		return nil, false
	}
	for key, s := range fresh {
		if !s.admit(ctx, c) {
			return nil, false
		}
		c.shapes.keep(key, s)
	}
	out := make([]Admission, len(objects))
	for i, o := range objects {
		out[i].Cluster = parts[i].cluster(o)
	}
	return out, true
}

// value is a variable's value: as it was given, and as Cluster API defaults it.
type value struct {
	raw       json.RawMessage
	defaulted any
	used      bool // by a Cluster, which must share it with no other
}

func (v *value) take() any {
	if v.used {
		return runtime.DeepCopyJSONValue(v.defaulted)
	}
	v.used = true
	return v.defaulted
}

// lists are the different values of a batch, by variable.
type lists struct {
	defs   map[string]*clusterv1.ClusterClassStatusVariable
	order  []string
	values map[string][]*value
	known  map[string]map[string]*value // by variable and the value's JSON
}

func newLists(class *clusterv1.ClusterClass) *lists {
	l := &lists{defs: map[string]*clusterv1.ClusterClassStatusVariable{}, values: map[string][]*value{}, known: map[string]map[string]*value{}}
	for i := range class.Status.Variables {
		v := &class.Status.Variables[i]
		l.defs[v.Name] = v
		l.known[v.Name] = map[string]*value{}
		l.order = append(l.order, v.Name)
	}
	return l
}

// add enters a Cluster's variables, and those that it lacks and the class creates. It reports whether that is all there is to the
// Cluster's variables; what is not, or is plainly wrong, is for Admit.
func (l *lists) add(p *member) bool {
	has := map[string]bool{}
	for i := range p.variables {
		v := &p.variables[i]
		if has[v.name] || !l.enter(v) {
			return false
		}
		has[v.name] = true
	}
	for _, name := range l.order {
		def := l.defs[name].Definitions[0]
		switch {
		case has[name]:
		case def.Required != nil && *def.Required && def.Schema.OpenAPIV3Schema.Default == nil:
			return false
		case def.Schema.OpenAPIV3Schema.Default != nil:
			v := variable{name: name, raw: def.Schema.OpenAPIV3Schema.Default.Raw}
			if !l.enter(&v) {
				return false
			}
			p.variables = append(p.variables, v)
		}
	}
	return true
}

func (l *lists) enter(v *variable) bool {
	if l.defs[v.name] == nil || len(v.raw) == 0 {
		return false
	}
	known := l.known[v.name]
	if v.value = known[string(v.raw)]; v.value == nil {
		v.value = &value{raw: v.raw}
		known[string(v.raw)] = v.value
		l.values[v.name] = append(l.values[v.name], v.value)
	}
	return true
}

// admit has Cluster API default and validate the lists, and takes over the defaulted values.
func (l *lists) admit(ctx context.Context, class *clusterv1.ClusterClass) bool {
	cl := &clusterv1.Cluster{}
	for _, name := range l.order {
		if len(l.values[name]) == 0 {
			continue
		}
		raw := []byte{'['}
		for i, v := range l.values[name] {
			if i > 0 {
				raw = append(raw, ',')
			}
			raw = append(raw, v.raw...)
		}
		raw = append(raw, ']')
		cl.Spec.Topology.Variables = append(cl.Spec.Topology.Variables, clusterv1.ClusterVariable{Name: name, Value: apiextensionsv1.JSON{Raw: raw}})
	}
	if errs := (&admission.Cluster{}).DefaultAndValidateVariables(ctx, cl, nil, class); len(errs) > 0 {
		return false
	}
	for _, v := range cl.Spec.Topology.Variables {
		var defaulted []any
		if err := utiljson.Unmarshal(v.Value.Raw, &defaulted); err != nil || len(defaulted) != len(l.values[v.Name]) {
			return false
		}
		for i, x := range l.values[v.Name] {
			x.defaulted = defaulted[i]
		}
	}
	return true
}

// listClass is the class with each variable a list of what it was, worked out once.
func (c *Class) listClass() *clusterv1.ClusterClass {
	c.lists.Do(func() {
		c.asLists = &clusterv1.ClusterClass{}
		for _, v := range c.class.Status.Variables {
			def := *v.Definitions[0].DeepCopy()
			item := def.Schema.OpenAPIV3Schema
			def.Schema.OpenAPIV3Schema = clusterv1.JSONSchemaProps{Type: "array", Items: &item}
			def.Required = nil
			c.asLists.Status.Variables = append(c.asLists.Status.Variables, clusterv1.ClusterClassStatusVariable{Name: v.Name, Definitions: []clusterv1.ClusterClassStatusVariableDefinition{def}})
		}
	})
	return c.asLists
}
