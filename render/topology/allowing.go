package topology

import (
	"maps"
	"sync"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/webhooks/admission"
)

// Allowing is the class without the choices, bounds, patterns and rules that its schema has for some values of variables: what it may
// have been when a cluster with such values was admitted. Types, required fields and unknown ones bind as before. Each path is a
// variable's name and the keys and indexes down to the value.
func (c *Class) Allowing(paths ...[]string) *Class {
	class := c.class.DeepCopy()
	defs := map[string]*clusterv1.JSONSchemaProps{}
	for i := range class.Spec.Variables {
		v := &class.Spec.Variables[i]
		defs[v.Name] = &v.Schema.OpenAPIV3Schema
		for _, p := range paths {
			if len(p) > 0 && p[0] == v.Name {
				allow(&v.Schema.OpenAPIV3Schema, p[1:])
			}
		}
	}
	for i := range class.Status.Variables {
		v := &class.Status.Variables[i]
		if s := defs[v.Name]; s != nil && len(v.Definitions) > 0 {
			v.Definitions[0].Schema.OpenAPIV3Schema = *s.DeepCopy()
		}
	}
	out := c.with(class)
	out.wanted, out.partMemo = newMemo[generated](), &partMemo{}
	return out
}

// allow opens a schema at a path of a value.
func allow(s *clusterv1.JSONSchemaProps, path []string) {
	if len(path) > 0 {
		key := path[0]
		p, ok := s.Properties[key]
		switch {
		case ok:
			s.Properties = maps.Clone(s.Properties)
			allow(&p, path[1:])
			s.Properties[key] = p
			return
		case s.Items != nil:
			allow(s.Items, path[1:])
			return
		case s.AdditionalProperties != nil:
			allow(s.AdditionalProperties, path[1:])
			return
		}
	}
	s.Enum, s.Pattern, s.Format, s.XValidations = nil, "", "", nil
	s.Minimum, s.Maximum, s.ExclusiveMinimum, s.ExclusiveMaximum = nil, nil, nil, nil
	s.MinLength, s.MaxLength, s.MinItems, s.MaxItems, s.UniqueItems = nil, nil, nil, nil, nil
	s.MinProperties, s.MaxProperties = nil, nil
	s.AllOf, s.OneOf, s.AnyOf, s.Not = nil, nil, nil, nil
}

// with is the class with another schema of its variables.
func (c *Class) with(class *clusterv1.ClusterClass) *Class {
	out := &Class{class: class, asWritten: c.written(), templates: c.templates, external: c.external, digest: c.digest, memo: newMemo[admitted](), wanted: c.wanted, partMemo: c.partMemo}
	out.defaults = sync.OnceValue(out.readDefaults)
	out.webhook = &admission.Cluster{Client: shelf{classes: []*clusterv1.ClusterClass{class}}}
	return out
}
