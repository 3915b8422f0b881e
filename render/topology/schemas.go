package topology

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/yaml"

	"copyhold.dev/copyhold/render/manifest"
)

// Schemas answers for custom resources as an API server would that has their CustomResourceDefinitions installed: it fills in
// defaults, and refuses undeclared fields and wrong values, with the packages that the API server itself is made of
// (k8s.io/apiextensions-apiserver). A definition is read when the first object of its kind is asked about.
type Schemas struct {
	open  func(crd string) ([]byte, error)
	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]func() (*kind, error)
}

// NewSchemas makes Schemas of definitions that open reads by name, as kubevirtmachinetemplates.infrastructure.cluster.x-k8s.io.
// A name that is not there is fs.ErrNotExist: nothing is known of that kind then, and nothing is checked of it.
func NewSchemas(open func(crd string) ([]byte, error)) *Schemas {
	return &Schemas{open: open, kinds: map[schema.GroupVersionKind]func() (*kind, error){}}
}

// DefinitionName is the name that a kind's definition is opened by.
func DefinitionName(gvk schema.GroupVersionKind) string {
	return contract.CalculateCRDName(gvk.Group, gvk.Kind)
}

// Known reports whether there is a schema for the object's kind. The error says why a definition cannot be used.
func (s *Schemas) Known(o *manifest.Object) (bool, error) {
	k, err := s.kind(o.GroupVersionKind())
	return k != nil, err
}

// kind is what is known of a custom resource, or nil.
func (s *Schemas) kind(gvk schema.GroupVersionKind) (*kind, error) {
	if s == nil {
		return nil, nil
	}
	s.mu.Lock()
	read := s.kinds[gvk]
	if read == nil {
		read = sync.OnceValues(func() (*kind, error) { return s.read(gvk) })
		s.kinds[gvk] = read
	}
	s.mu.Unlock()
	return read()
}

func (s *Schemas) read(gvk schema.GroupVersionKind) (*kind, error) {
	name := DefinitionName(gvk)
	data, err := s.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", gvk.Kind, err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := unmarshal(data, crd); err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", gvk.Kind, err)
	}
	if crd.Spec.Group != gvk.Group || crd.Spec.Names.Kind != gvk.Kind {
		return nil, fmt.Errorf("the schema file named %s defines %s of %s", name, crd.Spec.Names.Kind, crd.Spec.Group)
	}
	i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == gvk.Version && v.Served && v.Schema != nil && v.Schema.OpenAPIV3Schema != nil
	})
	if i < 0 {
		return nil, fmt.Errorf("the schema of %s has no served version %s", name, gvk.Version)
	}
	k, err := newKind(crd.Spec.Versions[i].Schema.OpenAPIV3Schema)
	if k != nil {
		k.namespaced = crd.Spec.Scope == apiextensionsv1.NamespaceScoped
	}
	return k, err
}

// unmarshal reads JSON, which most definitions are kept as, and else YAML.
func unmarshal(data []byte, into any) error {
	if len(data) > 0 && data[0] == '{' {
		return json.Unmarshal(data, into)
	}
	return yaml.Unmarshal(data, into)
}

// kind is one version of a custom resource.
type kind struct {
	namespaced bool
	structural *structuralschema.Structural
	validator  func() (validation.SchemaCreateValidator, error)
	rules      func() *cel.Validator // nil when there are none
}

func newKind(props *apiextensionsv1.JSONSchemaProps) (*kind, error) {
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, internal, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		return nil, err
	}
	return &kind{
		structural: structural,
		validator: sync.OnceValues(func() (validation.SchemaCreateValidator, error) {
			v, _, err := validation.NewSchemaValidator(internal)
			return v, err
		}),
		rules: sync.OnceValue(func() *cel.Validator { return cel.NewValidator(structural, true, celconfig.PerCallLimit) }),
	}, nil
}

// Default is the object as an API server would return it: with the defaults of its schema. The object handed in is not changed.
func (s *Schemas) Default(o *manifest.Object) (*manifest.Object, error) {
	k, err := s.kind(o.GroupVersionKind())
	if k == nil || err != nil {
		return o, err
	}
	out := o.DeepCopy()
	defaulting.PruneNonNullableNullsWithoutDefaults(out.Object, k.structural)
	defaulting.Default(out.Object, k.structural)
	return out, nil
}

// emptiedWords is the problem with what Emptied finds, in words.
const emptiedWords = "an object that had fields and is empty now: server-side apply makes null of it; take it away, or keep one of its fields"

// Validate tells what an API server would refuse of an object: fields that the schema does not declare (server-side apply fails on
// them, as it does in Cluster API's topology controller), wrong values, and CEL rules. With old it is a change that Cluster API applies:
// the rules about changes hold too, and no object may be emptied (see Emptied).
func (s *Schemas) Validate(o, old *manifest.Object) ([]Problem, error) {
	k, err := s.kind(o.GroupVersionKind())
	if k == nil || err != nil {
		return nil, err
	}
	given := o
	var out []Problem
	for _, p := range undeclared(o, k.structural) {
		out = append(out, Problem{Field: p, Type: string(field.ErrorTypeForbidden), Detail: "field not declared in schema"})
	}
	o = o.DeepCopy()
	defaulting.Default(o.Object, k.structural) // a null that a patch has written stays, and is refused where it may not be
	validator, err := k.validator()
	if err != nil {
		return nil, err
	}
	errs := validation.ValidateCustomResource(nil, o.Object, validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, k.structural, o.Object)...)
	if rules := k.rules(); rules != nil && len(errs) == 0 {
		var was map[string]any
		if old != nil && old.GroupVersionKind() == o.GroupVersionKind() {
			full, err := s.Default(old)
			if err != nil {
				return nil, err
			}
			was = full.Object
		}
		more, _ := rules.Validate(context.Background(), nil, k.structural, o.Object, asOld(was), celconfig.RuntimeCELCostBudget)
		errs = append(errs, more...)
	}
	for _, e := range errs {
		out = append(out, Problem{Field: e.Field, Type: string(e.Type), Detail: e.ErrorBody()})
	}
	if len(out) == 0 {
		out = kubeadmProblems(o)
	}
	for _, e := range s.Emptied(old, given) {
		if !e.Replaced {
			out = append(out, Problem{Field: e.Field, Type: string(field.ErrorTypeInvalid), Detail: emptiedWords})
		}
	}
	return out, nil
}

// asOld keeps a missing old object apart from an empty one: rules about changes hold only when there is one.
func asOld(was map[string]any) any {
	if was == nil {
		return nil
	}
	return was
}

// undeclared are the places of fields that the schema does not have, sorted.
func undeclared(o *manifest.Object, s *structuralschema.Structural) []string {
	scratch := runtime.DeepCopyJSON(o.Object)
	out := pruning.PruneWithOptions(scratch, s, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	slices.Sort(out)
	return slices.Compact(out)
}

// explicit is the object's spec without the fields that are equal to their default in the schema: what is left says the same on
// an API server, whether or not a default was written out, and whatever a provider makes the default of a field that is not there.
func (s *Schemas) explicit(o *manifest.Object) (any, error) {
	spec := o.Object["spec"]
	k, err := s.kind(o.GroupVersionKind())
	if err != nil || spec == nil {
		return spec, err
	}
	var sub structuralschema.Structural
	if k != nil {
		sub = k.structural.Properties["spec"]
	}
	if sub.Properties == nil {
		return kubeadmExplicit(o.GroupVersionKind(), spec), nil
	}
	out := runtime.DeepCopyJSONValue(spec)
	if m, ok := out.(map[string]any); ok { // a null is no value where the schema has none
		defaulting.PruneNonNullableNullsWithoutDefaults(m, &sub)
	}
	return kubeadmExplicit(o.GroupVersionKind(), withoutDefaults(out, &sub)), nil
}

func withoutDefaults(value any, s *structuralschema.Structural) any {
	if s == nil {
		return value
	}
	switch x := value.(type) {
	case map[string]any:
		for name, v := range x {
			p := property(s, name)
			if p == nil {
				continue
			}
			x[name] = withoutDefaults(v, p)
			if equalDefault(v, x[name], p) {
				delete(x, name)
			}
		}
	case []any:
		for i := range x {
			x[i] = withoutDefaults(x[i], s.Items)
		}
	}
	return value
}

// equalDefault reports whether leaving a field out says the same as its value. bare is the value without the defaults inside it.
func equalDefault(value, bare any, s *structuralschema.Structural) bool {
	def := s.Default.Object
	if def == nil {
		return false
	}
	full := runtime.DeepCopyJSONValue(def)
	defaulting.Default(full, s)
	return reflect.DeepEqual(full, value) || reflect.DeepEqual(withoutDefaults(full, s), bare)
}

func property(s *structuralschema.Structural, name string) *structuralschema.Structural {
	if p, ok := s.Properties[name]; ok {
		return &p
	}
	if s.AdditionalProperties != nil {
		return s.AdditionalProperties.Structural
	}
	return nil
}

// Words is a problem on one line.
func (p Problem) Words() string {
	if p.Field == "" || p.Field == "<nil>" {
		return p.Detail
	}
	return strings.TrimSpace(p.Field + ": " + p.Detail)
}
