package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// definitions is the CustomResourceDefinitions that are installed: folders of modules, and our own. The files in the modules lack the
// labels that say which contract of Cluster API a kind speaks; those are in each provider's kustomization.
var definitions []*unstructured.Unstructured

var sources = []struct {
	module, dir string
	labels      map[string]string
	manager     int // 1 and 2: the manager that converts them
}{
	{"sigs.k8s.io/cluster-api@v1.14.2", "core/config/crd/bases", contracts("v1beta1", "v1beta1", "v1beta2", "v1beta2"), 1},
	{"sigs.k8s.io/cluster-api@v1.14.2", "bootstrap/kubeadm/config/crd/bases", contracts("v1beta1", "v1beta1", "v1beta2", "v1beta2"), 2},
	{"github.com/clastix/cluster-api-control-plane-provider-kamaji@v0.20.0", "config/crd/bases", contracts("v1beta2", "v1alpha2"), 0},
	{"sigs.k8s.io/cluster-api-provider-kubevirt@v0.11.2", "config/crd/bases", contracts("v1beta1", "v1alpha1"), 0},
	{"github.com/clastix/kamaji@v1.0.0", "charts/kamaji/crds", nil, 0},
	{"go.universe.tf/metallb@v0.16.2", "config/crd/bases", nil, 0},
	{"sigs.k8s.io/cluster-api-ipam-provider-in-cluster@v1.0.3", "config/crd/bases", contracts("v1beta1", "v1alpha2"), 0},
	{"github.com/ionos-cloud/cluster-api-provider-proxmox@v0.9.0", "config/crd/bases", contracts("v1beta1", "v1alpha2", "v1beta2", "v1alpha2"), 0},
	{"github.com/nutanix-cloud-native/cluster-api-provider-nutanix@v1.10.3", "config/crd/bases", contracts("v1beta1", "v1beta1"), 0},
	{"sigs.k8s.io/cluster-api-provider-packet@v0.9.0", "config/crd/bases", contracts("v1beta1", "v1beta1"), 0},
	{"sigs.k8s.io/cluster-api-addon-provider-helm@v0.6.4", "config/crd/bases", contracts("v1beta1", "v1alpha1"), 0},
	{"", "testdata/crds", contracts("v1beta2", "v1alpha1"), 0}, // kinds that nobody has published
	{unpublished, "metal-stack", contracts("v1beta1", "v1alpha1", "v1beta2", "v1alpha1"), 0},
	{unpublished, "hetzner", contracts("v1beta1", "v1beta1"), 0},
}

// unpublished marks the definitions of providers that no Go module has. They are in a folder that is not ours: see providerFolder.
const unpublished = "unpublished"

// providerFolder is where the folders metal-stack and hetzner are, each with a provider's config/crd/bases: COPYHOLD_CRDS names it, or it
// is shared/crds beside the work tree. It is "" when there is none.
func providerFolder() string {
	folder := os.Getenv("COPYHOLD_CRDS")
	if folder == "" {
		folder = "../../../shared/crds"
	}
	for _, provider := range []string{"metal-stack", "hetzner"} {
		if _, err := os.Stat(filepath.Join(folder, provider)); err != nil {
			return ""
		}
	}
	return folder
}

// contracts is labels: contract and the version of the kind that speaks it, in turn.
func contracts(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out["cluster.x-k8s.io/"+pairs[i]] = pairs[i+1]
	}
	return out
}

const capi = "sigs.k8s.io/cluster-api@v1.14.2"

var (
	crds             = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
	mutatingHooks    = resource("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations")
	validatingHooks  = resource("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations")
	hookManifests    = []string{"core/config/webhook/manifests.yaml", "bootstrap/kubeadm/config/webhook/manifests.yaml"}
	hookNamePrefixes = []string{"core-", "kubeadm-"} // both providers call theirs by one name
)

// install puts all definitions and web hooks into the API server, pointed at the managers' ports.
func install(ctx context.Context, p *plane, ports ...int) error {
	config := rest.CopyConfig(p.config)
	config.WarningHandlerWithContext = rest.NoWarnings{} // about formats in definitions that are not ours
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, s := range sources {
		dir := s.dir
		switch s.module {
		case "":
		case unpublished:
			if providerFolder() == "" {
				continue // the test that needs it says so
			}
			dir = filepath.Join(providerFolder(), s.dir)
		default:
			module, err := moduleDir(s.module)
			if err != nil {
				return err
			}
			dir = filepath.Join(module, s.dir)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("no definitions in %s: %v", dir, err)
		}
		for _, f := range files {
			objects, err := readObjects(f)
			if err != nil {
				return err
			}
			for _, o := range objects {
				if s.manager > 0 {
					convert(o, ports[s.manager-1], p.authority)
				}
				o.SetLabels(s.labels)
				unstructured.RemoveNestedField(o.Object, "status")
				unstructured.RemoveNestedField(o.Object, "spec", "names", "shortNames") // providers that are not made for one cluster share some
				definitions = append(definitions, o)
			}
		}
	}
	for _, o := range definitions {
		if _, err := c.Resource(crds).Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for _, o := range definitions {
		if err := established(ctx, c, o.GetName()); err != nil {
			return err
		}
	}
	return installHooks(ctx, c, p.authority, ports)
}

func convert(crd *unstructured.Unstructured, port int, authority []byte) {
	crd.Object["spec"].(map[string]any)["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []any{"v1"}, "clientConfig": clientConfig(port, "/convert", authority),
	}}
}

func clientConfig(port int, path string, authority []byte) map[string]any {
	var c struct {
		URL      string `json:"url"`
		CABundle []byte `json:"caBundle"`
	}
	c.URL, c.CABundle = fmt.Sprintf("https://127.0.0.1:%d%s", port, path), authority
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&c)
	if err != nil {
		panic(err) // of two fields
	}
	return out
}

func established(ctx context.Context, c dynamic.Interface, name string) error {
	return poll(ctx, time.Minute, "definition "+name+" is established", func() (bool, error) {
		o, err := c.Resource(crds).Get(ctx, name, metav1.GetOptions{})
		return err == nil && condition(o, "Established") == "True", err
	})
}

func installHooks(ctx context.Context, c dynamic.Interface, authority []byte, ports []int) error {
	dir, err := moduleDir(capi)
	if err != nil {
		return err
	}
	for i, file := range hookManifests {
		objects, err := readObjects(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		for _, o := range objects {
			o.SetName(hookNamePrefixes[i] + o.GetName())
			for _, h := range o.Object["webhooks"].([]any) {
				h := h.(map[string]any)
				path, _, _ := unstructured.NestedString(h, "clientConfig", "service", "path")
				h["clientConfig"] = clientConfig(ports[i], path, authority)
			}
			kind := mutatingHooks
			if strings.HasPrefix(o.GetKind(), "Validating") {
				kind = validatingHooks
			}
			if _, err := c.Resource(kind).Create(ctx, o, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// readObjects reads the documents of a file.
func readObjects(file string) ([]*unstructured.Unstructured, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseObjects(string(data))
}

// parseObjects reads documents; of a List, its items.
func parseObjects(text string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, doc := range strings.Split("\n"+text, "\n---") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			return nil, err
		}
		if len(o) == 0 {
			continue
		}
		u := &unstructured.Unstructured{Object: jsonNumbers(o).(map[string]any)}
		if !u.IsList() {
			out = append(out, u)
			continue
		}
		for _, item := range u.Object["items"].([]any) {
			out = append(out, &unstructured.Unstructured{Object: item.(map[string]any)})
		}
	}
	return out, nil
}

// jsonNumbers makes whole numbers int64, as the API's own decoder does.
func jsonNumbers(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k := range x {
			x[k] = jsonNumbers(x[k])
		}
	case []any:
		for i := range x {
			x[i] = jsonNumbers(x[i])
		}
	case float64:
		if x == float64(int64(x)) {
			return int64(x)
		}
	}
	return v
}
