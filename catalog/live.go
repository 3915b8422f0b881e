package catalog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
)

// CompareLive finds how a ClusterClass that runs differs from the vendored one, with the templates that each names; at is where the
// live objects were read from. Only what Cluster API acts on counts: not what an API server adds to an object, not descriptions, not
// the order of lists that have none, and not a template's labels. A template of another name with the same content is a warning: it
// rolls nothing.
func CompareLive(at diag.Pos, vendored, live []*manifest.Object, namespace, class string) diag.List {
	ours, theirs := findClass(vendored, namespace, class), findClass(live, namespace, class)
	what := fmt.Sprintf("ClusterClass %s/%s", namespace, class)
	switch {
	case ours == nil: // said where the class is loaded
		return nil
	case theirs == nil:
		return diag.List{diag.Errorf(at, "live/missing", "%s is not there", what).
			Hintf("export it with: kubectl get clusterclasses.v1beta2.cluster.x-k8s.io %s -n %s -o yaml", class, namespace)}
	case theirs.GetAPIVersion() != ours.GetAPIVersion():
		return diag.List{diag.Errorf(at, "live/api-version", "%s is %s, want %s", what, theirs.GetAPIVersion(), ours.GetAPIVersion()).
			Hintf("export it again with: kubectl get clusterclasses.v1beta2.cluster.x-k8s.io %s -n %s -o yaml", class, namespace)}
	}
	a, err := classSpec(ours)
	if err != nil {
		return nil // said where the class is loaded
	}
	b, err := classSpec(theirs)
	if err != nil {
		return diag.List{diag.Errorf(at, "live/unreadable", "%s: %v", what, err).
			Hintf("it may be of a later Cluster API than the engine in copyhold")}
	}
	w := comparison{at: at, what: what}
	w.compare("spec", a, b)
	w.templates(TemplateRefs(ours), TemplateRefs(theirs), inNamespace(vendored, namespace), inNamespace(live, namespace))
	return w.found
}

func findClass(objects []*manifest.Object, namespace, name string) *manifest.Object {
	want := manifest.ID{Group: clusterv1.GroupVersion.Group, Kind: "ClusterClass", Namespace: namespace, Name: name}
	i := slices.IndexFunc(objects, func(o *manifest.Object) bool { return manifest.IDOf(o) == want })
	if i < 0 {
		return nil
	}
	return objects[i]
}

func inNamespace(objects []*manifest.Object, namespace string) []*manifest.Object {
	return slices.DeleteFunc(slices.Clone(objects), func(o *manifest.Object) bool { return o.GetNamespace() != namespace })
}

// classSpec is what Cluster API acts on in a ClusterClass, as its own types hold it: defaults of the API filled in, sets sorted,
// words for people and references to templates left out.
func classSpec(o *manifest.Object) (map[string]any, error) {
	var c clusterv1.ClusterClass
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(manifest.Bare(o).Object, &c, true); err != nil {
		return nil, err
	}
	for i := range c.Spec.Variables {
		normalSchema(&c.Spec.Variables[i].Schema.OpenAPIV3Schema)
	}
	for i := range c.Spec.Patches {
		c.Spec.Patches[i].Description = ""
	}
	var none clusterv1.ClusterClassTemplateReference
	c.Spec.Infrastructure.TemplateRef, c.Spec.ControlPlane.TemplateRef, c.Spec.ControlPlane.MachineInfrastructure.TemplateRef = none, none, none
	for i := range c.Spec.Workers.MachineDeployments {
		w := &c.Spec.Workers.MachineDeployments[i]
		w.Bootstrap.TemplateRef, w.Infrastructure.TemplateRef = none, none
	}
	for i := range c.Spec.Workers.MachinePools {
		w := &c.Spec.Workers.MachinePools[i]
		w.Bootstrap.TemplateRef, w.Infrastructure.TemplateRef = none, none
	}
	u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&c)
	if err != nil {
		return nil, err
	}
	spec, _ := u["spec"].(map[string]any)
	return spec, nil
}

func normalSchema(s *clusterv1.JSONSchemaProps) {
	s.Description, s.Example = "", nil
	slices.Sort(s.Required)
	slices.SortFunc(s.Enum, func(a, b apiextensionsv1.JSON) int { return cmp.Compare(string(a.Raw), string(b.Raw)) })
	for i := range s.XValidations {
		if s.XValidations[i].Reason == "" { // the API's default
			s.XValidations[i].Reason = clusterv1.FieldValueInvalid
		}
	}
	for name, p := range s.Properties {
		normalSchema(&p)
		s.Properties[name] = p
	}
	for _, list := range [][]clusterv1.JSONSchemaProps{s.AllOf, s.OneOf, s.AnyOf} {
		for i := range list {
			normalSchema(&list[i])
		}
	}
	for _, inner := range []*clusterv1.JSONSchemaProps{s.Items, s.AdditionalProperties, s.Not} {
		if inner != nil {
			normalSchema(inner)
		}
	}
}

// comparison gathers the differences of one class.
type comparison struct {
	at    diag.Pos
	what  string // the object that is compared
	found diag.List
}

func (w *comparison) differs(format string, args ...any) {
	w.found.Add(diag.Errorf(w.at, "live/differs", "%s: %s", w.what, fmt.Sprintf(format, args...)))
}

// keyed are the lists of a ClusterClass whose entries have names. Only of patches does the order matter.
var keyed = map[string]string{"spec.variables": "name", "spec.patches": "name", "spec.workers.machineDeployments": "class", "spec.workers.machinePools": "class"}

func (w *comparison) compare(place string, vendored, live any) {
	a, isMap := vendored.(map[string]any)
	b, alsoMap := live.(map[string]any)
	x, isList := vendored.([]any)
	y, alsoList := live.([]any)
	switch {
	case isMap && alsoMap:
		keys := maps.Clone(a)
		maps.Copy(keys, b)
		for _, key := range Sorted(keys) {
			w.entry(place+"."+key, a, b, key)
		}
	case isList && alsoList && keyed[place] != "":
		key := keyed[place]
		w.compareKeyed(place, byKey(x, key), byKey(y, key))
		if place == "spec.patches" && !slices.Equal(names(x, key), names(y, key)) && slices.Equal(slices.Sorted(slices.Values(names(x, key))), slices.Sorted(slices.Values(names(y, key)))) {
			w.differs("the patches are applied in another order: live %s, vendored %s", strings.Join(names(y, key), ", "), strings.Join(names(x, key), ", "))
		}
	case isList && alsoList:
		for i := range max(len(x), len(y)) {
			here := fmt.Sprintf("%s[%d]", place, i)
			switch {
			case i >= len(x):
				w.liveOnly(here, y[i])
			case i >= len(y):
				w.vendoredOnly(here, x[i])
			default:
				w.compare(here, x[i], y[i])
			}
		}
	case diag.JSON(vendored) != diag.JSON(live):
		w.differs("%s is %s live, %s vendored", place, short(live), short(vendored))
	}
}

func (w *comparison) compareKeyed(place string, a, b map[string]any) {
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	for _, key := range Sorted(keys) {
		w.entry(place+"["+key+"]", a, b, key)
	}
}

func (w *comparison) entry(place string, a, b map[string]any, key string) {
	x, vendored := a[key]
	y, live := b[key]
	switch {
	case !vendored:
		w.liveOnly(place, y)
	case !live:
		w.vendoredOnly(place, x)
	default:
		w.compare(place, x, y)
	}
}

func (w *comparison) liveOnly(place string, v any) {
	w.differs("live has %s: %s, vendored has not", place, short(v))
}

func (w *comparison) vendoredOnly(place string, v any) {
	w.differs("vendored has %s: %s, live has not", place, short(v))
}

// templates compares what two classes name at each place: which kind, and what is in it.
func (w *comparison) templates(ours, theirs []TemplateRef, vendored, live []*manifest.Object) {
	class := w.what
	at := map[string]TemplateRef{}
	for _, r := range theirs {
		at[r.Place] = r
	}
	for _, r := range ours {
		w.what = class
		t, ok := at[r.Place]
		delete(at, r.Place)
		switch {
		case !ok:
			w.differs("vendored has %s, live has not", r.Place)
			continue
		case r.APIVersion != t.APIVersion || r.Kind != t.Kind:
			w.differs("%s is %s %s live, %s %s vendored", r.Place, t.APIVersion, t.Kind, r.APIVersion, r.Kind)
			continue
		}
		a, b := r.find(vendored), t.find(live)
		if b == nil {
			w.found.Add(diag.Errorf(w.at, "live/missing", "%s names %s %s at %s, which is not there", class, t.Kind, t.Name, r.Place).
				Hintf("export the templates beside the class"))
			continue
		}
		if a == nil {
			continue // said where the class is loaded
		}
		w.what = fmt.Sprintf("%s %s of %s", t.Kind, t.Name, class)
		before := len(w.found)
		w.compare("spec", a.Object["spec"], b.Object["spec"])
		if r.Name != t.Name && len(w.found) == before {
			w.found.Add(diag.Warnf(w.at, "live/renamed", "%s is called %s in the vendored class: its content is the same, so nothing rolls", w.what, r.Name))
		}
	}
	w.what = class
	for _, place := range Sorted(at) {
		w.differs("live has %s, vendored has not", place)
	}
}

func byKey(list []any, key string) map[string]any {
	out := map[string]any{}
	for i, name := range names(list, key) {
		out[name] = list[i]
	}
	return out
}

func names(list []any, key string) []string {
	out := make([]string, 0, len(list))
	for _, v := range list {
		out = append(out, text(dig(v, key)))
	}
	return out
}

// short is a value as JSON, cut where it would fill the line.
func short(v any) string {
	const most = 80
	j, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	if s := []rune(string(j)); len(s) > most {
		return string(s[:most]) + "..."
	}
	return string(j)
}
