package topology_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	bootstrapadmission "sigs.k8s.io/cluster-api/bootstrap/kubeadm/webhooks/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"copyhold.dev/copyhold/catalog/builtin"
)

// The fake client of controller-runtime knows no schemas, and takes a server-side apply that is a dry run for nothing at all. Cluster
// API's reconciler decides by such dry runs whether a template is rotated. So here they are carried out as an API server does it, with
// the packages an API server is made of. None of it is shared with the code under test.

// apiServer is what an API server knows of custom resources.
type apiServer struct {
	definitions []*apiextensionsv1.CustomResourceDefinition
	resources   map[schema.GroupVersionKind]*resource
}

// resource is one version of a custom resource.
type resource struct {
	structural *structuralschema.Structural
	validator  validation.SchemaCreateValidator
	rules      *cel.Validator
	typed      *managedfields.FieldManager // merges by the schema, and refuses what it does not declare
	deduced    *managedfields.FieldManager // keeps the books on who owns what as the fake client does
}

// definition reads a CustomResourceDefinition by its name: those of the built-in catalog, and those of a made-up provider that has one
// of everything that schemas can say about defaults.
func definition(name string) ([]byte, error) {
	data, err := fs.ReadFile(builtin.Repository(), "catalog/crds/"+name+".json")
	if err == nil {
		return data, nil
	}
	return os.ReadFile("testdata/crds/" + name + ".yaml")
}

// theServer is made once: compiling the schemas takes a while, and nothing in it changes.
var theServer = sync.OnceValues(func() (*apiServer, error) {
	s := &apiServer{resources: map[schema.GroupVersionKind]*resource{}}
	names, err := definitionNames()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, err := definition(name)
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(data, crd); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		s.definitions = append(s.definitions, crd)
		for _, v := range crd.Spec.Versions {
			gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}
			if s.resources[gvk], err = newResource(v.Schema.OpenAPIV3Schema, gvk); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return s, nil
})

func definitionNames() ([]string, error) {
	var out []string
	kept, err := fs.ReadDir(builtin.Repository(), "catalog/crds")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadDir("testdata/crds")
	if err != nil {
		return nil, err
	}
	for _, e := range append(kept, own...) {
		out = append(out, strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".json"), ".yaml"))
	}
	return out, nil
}

func newResource(props *apiextensionsv1.JSONSchemaProps, gvk schema.GroupVersionKind) (*resource, error) {
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, internal, nil); err != nil {
		return nil, err
	}
	r := &resource{}
	var err error
	if r.structural, err = structuralschema.NewStructural(internal); err != nil {
		return nil, err
	}
	if r.validator, _, err = validation.NewSchemaValidator(internal); err != nil {
		return nil, err
	}
	r.rules = cel.NewValidator(r.structural, true, celconfig.PerCallLimit)
	typed, err := converter(internal, gvk)
	if err != nil {
		return nil, err
	}
	if r.typed, err = managedfields.NewDefaultCRDFieldManager(typed, asIs{}, asIs{}, asIs{}, gvk, gvk.GroupVersion(), "", nil); err != nil {
		return nil, err
	}
	r.deduced, err = managedfields.NewDefaultCRDFieldManager(managedfields.NewDeducedTypeConverter(), asIs{}, asIs{}, asIs{}, gvk, gvk.GroupVersion(), "", nil)
	return r, err
}

// converter knows the lists of a kind that are merged by key, and its fields. What is not the provider's own is taken as it comes.
func converter(props *apiextensions.JSONSchemaProps, gvk schema.GroupVersionKind) (managedfields.TypeConverter, error) {
	s, err := structuralschema.NewStructural(props)
	if err != nil {
		return nil, err
	}
	anything := structuralschema.Structural{Generic: structuralschema.Generic{Type: "object"}, Extensions: structuralschema.Extensions{XPreserveUnknownFields: true}}
	text := structuralschema.Structural{Generic: structuralschema.Generic{Type: "string"}}
	s.Properties["apiVersion"], s.Properties["kind"], s.Properties["metadata"], s.Properties["status"] = text, text, anything, anything
	model := s.ToKubeOpenAPI()
	model.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}})
	return managedfields.NewTypeConverter(named(gvk.Kind, model), false)
}

func named[M any](name string, model M) map[string]M { return map[string]M{name: model} }

// asIs makes, defaults and converts objects of the one version there is.
type asIs struct{}

func (asIs) Default(runtime.Object) {}

func (asIs) New(k schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(k)
	return u, nil
}

func (asIs) Convert(_, _, _ any) error { return fmt.Errorf("there is one version only") }

func (asIs) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (asIs) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// books are who owns which fields of which object, by the schemas. The fake client keeps its own, in which every list is one value.
type books map[objectKey][]metav1.ManagedFieldsEntry

type objectKey struct {
	schema.GroupVersionKind
	client.ObjectKey
}

// apply is the interceptor of the fake client's Apply: the result of a dry run is handed back in obj, as a client does it.
func (s *apiServer) apply(ctx context.Context, owners books, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	o := &client.ApplyOptions{}
	o.ApplyOptions(opts)
	applied := &unstructured.Unstructured{}
	if err := through(obj, applied); err != nil {
		return err
	}
	r := s.resources[applied.GroupVersionKind()]
	if r == nil {
		return c.Apply(ctx, obj, opts...)
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(applied.GroupVersionKind())
	err := c.Get(ctx, client.ObjectKeyFromObject(applied), live)
	exists := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if !exists {
		live = &unstructured.Unstructured{}
		live.SetGroupVersionKind(applied.GroupVersionKind())
		live.SetName(applied.GetName())
		live.SetNamespace(applied.GetNamespace())
	}
	key := objectKey{applied.GroupVersionKind(), client.ObjectKeyFromObject(applied)}
	merged, owned, err := r.merge(live, applied, owners[key], o)
	if err != nil {
		return err
	}
	var old *unstructured.Unstructured
	if exists {
		old = live.DeepCopy()
		defaulting.Default(old.Object, r.structural)
	}
	dryRun := len(o.DryRun) > 0
	if err := r.admit(ctx, merged, old, dryRun); err != nil {
		return err
	}
	if !dryRun {
		owners[key] = owned
		return c.Apply(ctx, obj, opts...)
	}
	if w, ok := obj.(interface{ SetUnstructuredContent(map[string]any) }); ok {
		w.SetUnstructuredContent(map[string]any{})
	}
	return through(merged, obj)
}

// through copies by way of JSON.
func through(from, to any) error {
	j, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(j, to)
}

// merge is the object after the apply, with its owners as the fake client has them, and by the schema.
func (r *resource) merge(live, applied *unstructured.Unstructured, owners []metav1.ManagedFieldsEntry, o *client.ApplyOptions) (*unstructured.Unstructured, []metav1.ManagedFieldsEntry, error) {
	force := o.Force != nil && *o.Force
	deduced, err := r.deduced.Apply(live.DeepCopy(), applied.DeepCopy(), o.FieldManager, force)
	if err != nil {
		return nil, nil, err
	}
	live = live.DeepCopy()
	live.SetManagedFields(owners)
	merged, err := r.typed.Apply(live, applied.DeepCopy(), o.FieldManager, force)
	if err != nil {
		return nil, nil, err
	}
	out := merged.(*unstructured.Unstructured)
	owned := out.GetManagedFields()
	out.SetManagedFields(deduced.(*unstructured.Unstructured).GetManagedFields())
	return out, owned, nil
}

// admit defaults and validates what server-side apply has made, with Cluster API's own webhook where the kind has one.
func (r *resource) admit(ctx context.Context, o, old *unstructured.Unstructured, dryRun bool) error {
	defaulting.Default(o.Object, r.structural)
	if o.GroupVersionKind() == bootstrapv1.GroupVersion.WithKind("KubeadmConfigTemplate") {
		if err := kubeadmWebhook(ctx, o, dryRun); err != nil {
			return err
		}
	}
	errs := validation.ValidateCustomResource(nil, o.Object, r.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, r.structural, o.Object)...)
	if r.rules != nil && len(errs) == 0 {
		var was any
		if old != nil {
			was = old.Object
		}
		more, _ := r.rules.Validate(ctx, nil, r.structural, o.Object, was, celconfig.RuntimeCELCostBudget)
		errs = append(errs, more...)
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(o.GroupVersionKind().GroupKind(), o.GetName(), errs)
	}
	return nil
}

// kubeadmWebhook runs the webhook of Cluster API's kubeadm bootstrap provider. What it adds to the object is taken over; nothing else of
// its typed form is, as a patch from a webhook would not.
func kubeadmWebhook(ctx context.Context, o *unstructured.Unstructured, dryRun bool) error {
	c := &bootstrapv1.KubeadmConfigTemplate{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, c); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		return err
	}
	req := admission.Request{}
	req.DryRun = &dryRun
	hook := &bootstrapadmission.KubeadmConfigTemplate{}
	if err := hook.Default(admission.NewContextWithRequest(ctx, req), c); err != nil {
		return err
	}
	after, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		return err
	}
	takeOver(o.Object, before, after)
	_, err = hook.ValidateCreate(ctx, c)
	return err
}

// takeOver writes into o what after has and before has not.
func takeOver(o, before, after map[string]any) {
	for k, v := range after {
		was, there := before[k]
		inner, isMap := v.(map[string]any)
		switch {
		case isMap:
			wasMap, _ := was.(map[string]any)
			into, ok := o[k].(map[string]any)
			if !ok {
				into = map[string]any{}
			}
			if takeOver(into, wasMap, inner); len(into) > 0 {
				o[k] = into
			}
		case !there || !reflect.DeepEqual(was, v):
			o[k] = v
		}
	}
}

// unchangeable is why an object that is right by itself may not take the place of the one that is there.
func (s *apiServer) unchangeable(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
	r, old := s.resources[o.GroupVersionKind()], &unstructured.Unstructured{}
	old.SetGroupVersionKind(o.GroupVersionKind())
	if r == nil || c.Get(ctx, client.ObjectKeyFromObject(o), old) != nil || r.admit(ctx, o.DeepCopy(), nil, true) != nil {
		return nil
	}
	return r.admit(ctx, o.DeepCopy(), s.defaulted(old), true)
}

// stored is the object as it is kept when somebody writes it.
func (s *apiServer) stored(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := o.DeepCopy()
	if r := s.resources[o.GroupVersionKind()]; r != nil {
		defaulting.PruneNonNullableNullsWithoutDefaults(out.Object, r.structural)
		defaulting.Default(out.Object, r.structural)
	}
	return out
}

// defaulted is the object as it is read back.
func (s *apiServer) defaulted(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := o.DeepCopy()
	if r := s.resources[o.GroupVersionKind()]; r != nil {
		defaulting.Default(out.Object, r.structural)
	}
	return out
}

func (s *apiServer) funcs() interceptor.Funcs {
	owners := books{}
	return interceptor.Funcs{Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
		return s.apply(ctx, owners, c, obj, opts...)
	}}
}

func server(t testing.TB) *apiServer {
	t.Helper()
	s, err := theServer()
	if err != nil {
		t.Fatal(err)
	}
	return s
}
