package topology

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"copyhold.dev/copyhold/render/manifest"
)

// shape is what Clusters have in common that differ in their names, their labels and the values of their variables only. A fleet of
// thousands has a few. Beyond the variables, Cluster API validates none of what they differ in, other than the name, which Admit leaves
// out too (validate in core/webhooks/admission/cluster.go); so one that is validated speaks for all.
type shape struct {
	cluster   *clusterv1.Cluster // the first that has it
	overrides []overridden
	spec      map[string]any // as Cluster API would store it, without variables
}

// overridden is a variable of a worker pool, and where it goes once it is defaulted.
type overridden struct {
	variable
	slot *apiextensionsv1.JSON
}

type variable struct {
	name string
	raw  json.RawMessage
	*value
}

// member is one Cluster of a batch.
type member struct {
	key       string // of its shape
	shape     *shape
	variables []variable
}

// apart takes a Cluster's variables out of it, and reports whether it is made as a Cluster is; what is not is for Admit to refuse.
func apart(o *manifest.Object) (member, bool) {
	var p member
	meta, ok := o.Object["metadata"].(map[string]any)
	spec, _ := o.Object["spec"].(map[string]any)
	topo, is := spec["topology"].(map[string]any)
	if !ok || !is {
		return p, false
	}
	list, ok := topo["variables"].([]any)
	if _, there := topo["variables"]; there && !ok {
		return p, false
	}
	for _, v := range list {
		m, _ := v.(map[string]any)
		name, _ := m["name"].(string)
		if name == "" || m["value"] == nil || len(m) != 2 {
			return p, false
		}
		raw, err := json.Marshal(m["value"])
		if err != nil {
			return p, false
		}
		p.variables = append(p.variables, variable{name: name, raw: raw})
	}
	labels, ok := meta["labels"].(map[string]any)
	if _, there := meta["labels"]; there && !ok {
		return p, false
	}
	for _, v := range labels {
		if _, ok := v.(string); !ok {
			return p, false
		}
	}
	for _, field := range []string{"name", "namespace"} {
		if _, ok := meta[field].(string); !ok {
			return p, false
		}
	}
	var b []byte
	for _, x := range []struct {
		in      map[string]any
		without []string
	}{{o.Object, []string{"metadata", "spec"}}, {meta, []string{"name", "namespace", "labels"}}, {spec, []string{"topology"}}, {topo, []string{"variables"}}} {
		if b, ok = appendKey(b, x.in, x.without...); !ok {
			return p, false
		}
	}
	p.key = string(b)
	return p, true
}

// appendKey writes a value so that different ones never look alike. It reports whether it is made as JSON is.
func appendKey(b []byte, v any, without ...string) ([]byte, bool) {
	ok := true
	switch v := v.(type) {
	case nil:
		b = append(b, 'n')
	case bool:
		b = strconv.AppendBool(b, v)
	case string:
		b = strconv.AppendQuote(b, v)
	case int64:
		b = strconv.AppendInt(append(b, 'i'), v, 10)
	case float64:
		b = strconv.AppendFloat(append(b, 'f'), v, 'g', -1, 64)
	case []any:
		b = append(b, '[')
		for _, x := range v {
			if b, ok = appendKey(b, x); !ok {
				return b, false
			}
			b = append(b, ',')
		}
		b = append(b, ']')
	case map[string]any:
		b = append(b, '{')
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if slices.Contains(without, key) {
				continue
			}
			b = append(strconv.AppendQuote(b, key), ':')
			if b, ok = appendKey(b, v[key]); !ok {
				return b, false
			}
			b = append(b, ',')
		}
		b = append(b, '}')
	default:
		return b, false
	}
	return b, true
}

// newShape reads the first Cluster of a shape and enters what its worker pools override. It is not ok when the Cluster is for Admit.
func (c *Class) newShape(o *manifest.Object, l *lists) (*shape, bool) {
	cl := &clusterv1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, cl, true); err != nil {
		return nil, false
	}
	t := &cl.Spec.Topology
	if cl.GetClassKey() != client.ObjectKeyFromObject(c.class) || !strings.HasPrefix(t.Version, "v") || len(t.ControlPlane.Variables.Overrides) > 0 || len(t.Workers.MachinePools) > 0 {
		return nil, false
	}
	cl.Name, cl.Namespace = "x", "x" // as in Admit
	s := &shape{cluster: cl}
	for i := range t.Workers.MachineDeployments {
		list := t.Workers.MachineDeployments[i].Variables.Overrides
		for n := range list {
			x := overridden{variable: variable{name: list[n].Name, raw: list[n].Value.Raw}, slot: &list[n].Value}
			if !l.enter(&x.variable) {
				return nil, false
			}
			s.overrides = append(s.overrides, x)
		}
	}
	return s, true
}

// admit has Cluster API validate a shape whose variables are validated.
func (s *shape) admit(ctx context.Context, c *Class) bool {
	for _, o := range s.overrides {
		raw, err := json.Marshal(o.value.defaulted)
		if err != nil {
			return false
		}
		o.slot.Raw = raw
	}
	if _, err := c.webhook.ValidateCreate(ctx, s.cluster); err != nil {
		return false
	}
	u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s.cluster)
	if err != nil {
		return false
	}
	s.spec, _ = u["spec"].(map[string]any)
	topo, ok := s.spec["topology"].(map[string]any)
	if !ok {
		return false
	}
	delete(topo, "variables")
	s.cluster, s.overrides = nil, nil
	return true
}

// cluster is the Cluster as it would be stored: the object handed in is not changed.
func (p *member) cluster(o *manifest.Object) *manifest.Object {
	spec := runtime.DeepCopyJSON(p.shape.spec)
	if len(p.variables) > 0 {
		list := make([]any, len(p.variables))
		for i, v := range p.variables {
			list[i] = map[string]any{"name": v.name, "value": v.take()}
		}
		spec["topology"].(map[string]any)["variables"] = list
	}
	out := &manifest.Object{Object: make(map[string]any, len(o.Object))}
	for key, v := range o.Object {
		if key != "spec" {
			out.Object[key] = runtime.DeepCopyJSONValue(v)
		}
	}
	out.Object["spec"] = spec
	return out
}

// mostShapes bounds how many are kept.
const mostShapes = 256

// shapes are those that have been validated.
type shapes struct {
	mu    sync.Mutex
	byKey map[string]*shape
}

func (s *shapes) get(key string) *shape {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byKey[key]
}

func (s *shapes) keep(key string, x *shape) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey == nil {
		s.byKey = map[string]*shape{}
	}
	if len(s.byKey) < mostShapes {
		s.byKey[key] = x
	}
}
