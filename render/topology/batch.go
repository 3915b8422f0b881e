package topology

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
const batchSize = 50

// AdmitAll is Admit for many Clusters of a class, in their order.
//
// Cluster API compiles a variable's schema and its CEL rules anew for each value it looks at, and most of the time goes there. So
// the values of a batch are handed to it as one list, under a schema that says "a list of what the class says": the engine is the
// same, and compiles once. What it accepts as a list it accepts one by one. When it refuses anything in a batch, the batch is
// admitted one by one, so that no problem is ever told in other words. A test compares the two ways on random values.
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
	out := make([]Admission, len(objects))
	for i, o := range objects {
		out[i].Cluster, out[i].Problems, out[i].Err = c.Admit(o)
	}
	return out
}

// together admits a batch as one, or reports that it cannot.
func (c *Class) together(objects []*manifest.Object) ([]Admission, bool) {
	ctx := context.Background()
	clusters := make([]*clusterv1.Cluster, len(objects))
	lists := newLists(c.class)
	for i, o := range objects {
		cl := &clusterv1.Cluster{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, cl, true); err != nil {
			return nil, false
		}
		if cl.GetClassKey() != client.ObjectKeyFromObject(c.class) || !strings.HasPrefix(cl.Spec.Topology.Version, "v") || !lists.add(cl) {
			return nil, false
		}
		cl.Name, cl.Namespace = "x", "x" // as in Admit
		clusters[i] = cl
	}
	if !lists.admit(ctx, c.listClass()) {
		return nil, false
	}
	out := make([]Admission, len(objects))
	for i, cl := range clusters {
		if _, err := c.webhook.ValidateCreate(ctx, cl); err != nil {
			return nil, false
		}
		u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cl)
		if err != nil {
			return []Admission{{Err: fmt.Errorf("writing Cluster %s: %w", objects[i].GetName(), err)}}, false
		}
		o := objects[i].DeepCopy()
		o.Object["spec"] = u["spec"]
		out[i].Cluster = o
	}
	return out, true
}

// lists are the values of a batch, by variable.
type lists struct {
	defs   map[string]*clusterv1.ClusterClassStatusVariable
	order  []string
	values map[string][]json.RawMessage
	slots  map[string][]*apiextensionsv1.JSON // where each value goes once it is defaulted
}

func newLists(class *clusterv1.ClusterClass) *lists {
	l := &lists{defs: map[string]*clusterv1.ClusterClassStatusVariable{}, values: map[string][]json.RawMessage{}, slots: map[string][]*apiextensionsv1.JSON{}}
	for i := range class.Status.Variables {
		v := &class.Status.Variables[i]
		l.defs[v.Name] = v
		l.order = append(l.order, v.Name)
	}
	return l
}

// add enters a Cluster's variables, and those that it lacks and the class creates. It reports whether that is all there is to the
// Cluster's variables; what is not, or is plainly wrong, is for Admit.
func (l *lists) add(cl *clusterv1.Cluster) bool {
	t := &cl.Spec.Topology
	if len(t.ControlPlane.Variables.Overrides) > 0 || len(t.Workers.MachinePools) > 0 {
		return false
	}
	has := map[string]bool{}
	for _, v := range t.Variables {
		if has[v.Name] {
			return false
		}
		has[v.Name] = true
	}
	for _, name := range l.order {
		def := l.defs[name].Definitions[0]
		switch {
		case has[name]:
		case def.Required != nil && *def.Required && def.Schema.OpenAPIV3Schema.Default == nil:
			return false
		case def.Schema.OpenAPIV3Schema.Default != nil:
			t.Variables = append(t.Variables, clusterv1.ClusterVariable{Name: name, Value: *def.Schema.OpenAPIV3Schema.Default.DeepCopy()})
		}
	}
	if !l.enter(t.Variables) {
		return false
	}
	for i := range t.Workers.MachineDeployments {
		if !l.enter(t.Workers.MachineDeployments[i].Variables.Overrides) {
			return false
		}
	}
	return true
}

func (l *lists) enter(variables []clusterv1.ClusterVariable) bool {
	for i := range variables {
		v := &variables[i]
		if l.defs[v.Name] == nil || len(v.Value.Raw) == 0 {
			return false
		}
		l.values[v.Name] = append(l.values[v.Name], v.Value.Raw)
		l.slots[v.Name] = append(l.slots[v.Name], &v.Value)
	}
	return true
}

// admit has Cluster API default and validate the lists, and puts the defaulted values where they belong.
func (l *lists) admit(ctx context.Context, class *clusterv1.ClusterClass) bool {
	cl := &clusterv1.Cluster{}
	for _, name := range l.order {
		if len(l.values[name]) == 0 {
			continue
		}
		raw, err := json.Marshal(l.values[name])
		if err != nil {
			return false
		}
		cl.Spec.Topology.Variables = append(cl.Spec.Topology.Variables, clusterv1.ClusterVariable{Name: name, Value: apiextensionsv1.JSON{Raw: raw}})
	}
	if errs := (&admission.Cluster{}).DefaultAndValidateVariables(ctx, cl, nil, class); len(errs) > 0 {
		return false
	}
	for _, v := range cl.Spec.Topology.Variables {
		var values []json.RawMessage
		if err := json.Unmarshal(v.Value.Raw, &values); err != nil || len(values) != len(l.slots[v.Name]) {
			return false
		}
		for i, slot := range l.slots[v.Name] {
			slot.Raw = values[i]
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
