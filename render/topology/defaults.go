package topology

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/webhooks/admission"
)

// Defaults are the defaults of a class's variables: where in the schema each stands, and its value.
//
// A place is the variable's name, then the properties down to the default, joined by dots; [] stands for the items of a list
// and {} for the values of a map. A default at a variable's own name creates the variable; a deeper one only fills in a value
// that is there. So machineSize: small and controlPlane.network.serviceType: LoadBalancer say exactly what the schema says.
type Defaults map[string]any

// Defaults are those of the class today. They are shared: do not change them.
func (c *Class) Defaults() Defaults { return c.defaults() }

func (c *Class) readDefaults() Defaults {
	out := Defaults{}
	for i := range c.class.Spec.Variables {
		v := &c.class.Spec.Variables[i]
		eachSchema(v.Name, &v.Schema.OpenAPIV3Schema, func(place string, s *clusterv1.JSONSchemaProps) {
			if s.Default == nil {
				return
			}
			var value any
			if err := json.Unmarshal(s.Default.Raw, &value); err == nil {
				out[place] = value
			}
		})
	}
	return out
}

// WithDefaults is the class with these defaults in place of its own. Cluster API fills a default into a Cluster when it is
// admitted and never follows a later change of it; so a Cluster is rendered with the defaults it was admitted with.
// Defaults the class has and d has not stay as they are (fresh); places that the class no longer has are left out (gone).
func (c *Class) WithDefaults(d Defaults) (with *Class, fresh, gone []string) {
	class := c.class.DeepCopy()
	left := maps.Clone(d)
	defs := map[string]*clusterv1.JSONSchemaProps{}
	for i := range class.Spec.Variables {
		v := &class.Spec.Variables[i]
		defs[v.Name] = &v.Schema.OpenAPIV3Schema
		editSchemas(v.Name, &v.Schema.OpenAPIV3Schema, func(place string, s *clusterv1.JSONSchemaProps) {
			value, ok := d[place]
			delete(left, place)
			switch {
			case ok:
				raw, err := json.Marshal(value)
				if err == nil {
					s.Default = &apiextensionsv1.JSON{Raw: raw}
				}
			case s.Default != nil:
				fresh = append(fresh, place)
			}
		})
	}
	for i := range class.Status.Variables {
		v := &class.Status.Variables[i]
		if s := defs[v.Name]; s != nil && len(v.Definitions) > 0 {
			v.Definitions[0].Schema.OpenAPIV3Schema = *s.DeepCopy()
		}
	}
	slices.Sort(fresh)
	return c.with(class), fresh, slices.Sorted(maps.Keys(left))
}

// written is the ClusterClass that a management cluster has: recorded defaults are a cluster's own matter.
func (c *Class) written() *clusterv1.ClusterClass {
	if c.asWritten != nil {
		return c.asWritten
	}
	return c.class
}

// Validate runs Cluster API's ClusterClass webhook again, for a class whose defaults were replaced.
func (c *Class) Validate() []Problem {
	if _, err := (&admission.ClusterClass{}).ValidateCreate(context.Background(), c.class); err != nil {
		return problemsOf(err)
	}
	return nil
}

// Equal reports whether two sets of defaults say the same.
func (d Defaults) Equal(other Defaults) bool {
	a, errA := json.Marshal(d)
	b, errB := json.Marshal(other)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// eachSchema calls do for a schema and every schema below it, with its place. Properties are visited in order of their names.
// What do changes is not kept: see editSchemas.
func eachSchema(place string, s *clusterv1.JSONSchemaProps, do func(place string, s *clusterv1.JSONSchemaProps)) {
	do(place, s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		eachSchema(place+"."+name, &p, do)
	}
	if s.Items != nil {
		eachSchema(place+"[]", s.Items, do)
	}
	if s.AdditionalProperties != nil {
		eachSchema(place+"{}", s.AdditionalProperties, do)
	}
}

// editSchemas is eachSchema for a do that changes what it is given. Nobody else may be reading.
func editSchemas(place string, s *clusterv1.JSONSchemaProps, do func(place string, s *clusterv1.JSONSchemaProps)) {
	do(place, s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		editSchemas(place+"."+name, &p, do)
		s.Properties[name] = p
	}
	if s.Items != nil {
		editSchemas(place+"[]", s.Items, do)
	}
	if s.AdditionalProperties != nil {
		editSchemas(place+"{}", s.AdditionalProperties, do)
	}
}

// Variable describes a variable of a class for a person.
type Variable struct {
	Path     string // its name, or the path to one of its fields, in the notation of Defaults
	Type     string // string, integer, object, ...
	Required bool   // within its parent
	Default  any    // nil when there is none
	Choices  []string
	Bounds   string // "1 to 64", "at most 63 characters", or ""
	Text     string // its description in the class
}

// Variables are the variables of the class and their fields, sorted by path.
func (c *Class) Variables() []Variable {
	var out []Variable
	for i := range c.class.Spec.Variables {
		v := &c.class.Spec.Variables[i]
		required := map[string]bool{v.Name: v.Required != nil && *v.Required}
		eachSchema(v.Name, &v.Schema.OpenAPIV3Schema, func(place string, s *clusterv1.JSONSchemaProps) {
			for _, r := range s.Required {
				required[place+"."+r] = true
			}
			x := Variable{Path: place, Type: s.Type, Required: required[place], Bounds: bounds(s), Text: s.Description}
			if s.XIntOrString != nil && *s.XIntOrString {
				x.Type = "integer or string"
			}
			if s.Default != nil {
				_ = json.Unmarshal(s.Default.Raw, &x.Default)
			}
			for _, e := range s.Enum {
				x.Choices = append(x.Choices, string(bytes.Trim(e.Raw, `"`)))
			}
			out = append(out, x)
		})
	}
	slices.SortStableFunc(out, func(a, b Variable) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) })
	return out
}

func bounds(s *clusterv1.JSONSchemaProps) string {
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf("%d to %d", *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		return fmt.Sprintf("%d or more", *s.Minimum)
	case s.Maximum != nil:
		return fmt.Sprintf("at most %d", *s.Maximum)
	case s.MaxLength != nil:
		return fmt.Sprintf("at most %d characters", *s.MaxLength)
	}
	return ""
}
