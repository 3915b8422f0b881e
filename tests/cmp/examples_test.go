package cmp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-cd/v2/applicationset/utils"
	"github.com/argoproj/argo-cd/v2/common"
	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v2/util/app/path"
	"github.com/argoproj/argo-cd/v2/util/argo"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const examples = "../../examples/argocd"

// kustomized builds a folder, as YAML by kind/name.
func kustomized(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, r := range built.Resources() {
		data, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		out[r.GetKind()+"/"+r.GetName()] = data
	}
	return out
}

// decoded is one of the objects as Argo CD's own type, which has every field that is written.
func decoded[T any](t *testing.T, objects map[string][]byte, id string) T {
	t.Helper()
	var v T
	data, ok := objects[id]
	if !ok {
		t.Fatalf("there is no %s", id)
	}
	if err := yaml.UnmarshalStrict(data, &v); err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	return v
}

// tenantApplication is what Argo CD's ApplicationSet controller makes of a folder under tenants/.
func tenantApplication(t *testing.T, set v1alpha1.ApplicationSet, ns string) *v1alpha1.Application {
	t.Helper()
	app := &v1alpha1.Application{Spec: set.Spec.Template.Spec}
	app.Name, app.Annotations = set.Spec.Template.Name, set.Spec.Template.Annotations
	folder := "tenants/" + ns
	params := map[string]any{"path": map[string]any{"path": folder, "basename": ns, "basenameNormalized": ns, "segments": []string{"tenants", ns}}}
	out, err := (&utils.Render{}).RenderTemplateParams(app, set.Spec.SyncPolicy, params, set.Spec.GoTemplate, set.Spec.GoTemplateOptions)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Finalizers) > 0 { // its deletion would delete the fleet
		t.Errorf("%s has finalizers %v", out.Name, out.Finalizers)
	}
	return out
}

// Argo CD's own types and rules take the examples: every tenant's Application belongs to that tenant's project, which permits its
// source, its destination and no other.
func TestExampleApplications(t *testing.T) {
	objects := kustomized(t, examples)
	set := decoded[v1alpha1.ApplicationSet](t, objects, "ApplicationSet/copyhold-tenants")
	tenants := []string{"dynamo-prod", "photon-prod", "quark-dev"}
	for _, ns := range tenants {
		app := tenantApplication(t, set, ns)
		project := decoded[v1alpha1.AppProject](t, objects, "AppProject/"+app.Spec.Project)
		if err := project.ValidateProject(); err != nil {
			t.Errorf("%s: %v", project.Name, err)
		}
		if app.Name != "tenant-"+ns || app.Spec.Source.Path != "tenants/"+ns || app.Spec.Source.Plugin == nil || app.Spec.Source.Plugin.Name != "copyhold" {
			t.Errorf("%s is %+v", app.Name, app.Spec.Source)
		}
		if !project.IsSourcePermitted(*app.Spec.Source) {
			t.Errorf("%s does not permit its own source", project.Name)
		}
		for _, other := range append(tenants, "kube-system", "kmetal-capi-providers") {
			d := v1alpha1.ApplicationDestination{Server: app.Spec.Destination.Server, Namespace: other}
			ok, err := project.IsDestinationPermitted(d, nil)
			if err != nil || ok != (other == ns) {
				t.Errorf("%s: namespace %s is permitted: %v, %v", project.Name, other, ok, err)
			}
		}
		if canSync, err := project.Spec.SyncWindows.Matches(app).CanSync(true); err != nil || !canSync {
			t.Errorf("%s: a person may not sync: %v", project.Name, err)
		}
		if windows := project.Spec.SyncWindows.Matches(app); (windows != nil) != strings.HasSuffix(ns, "-prod") {
			t.Errorf("%s has sync windows %v", project.Name, windows)
		}
	}
	platform := decoded[v1alpha1.Application](t, objects, "Application/copyhold-platform")
	project := decoded[v1alpha1.AppProject](t, objects, "AppProject/"+platform.Spec.Project)
	if err := project.ValidateProject(); err != nil || !project.IsSourcePermitted(*platform.Spec.Source) {
		t.Errorf("%s: %v", project.Name, err)
	}
}

// A commit renders anew what it can change, and nothing else: by Argo CD's own reading of the annotation.
func TestExamplePaths(t *testing.T) {
	objects := kustomized(t, examples)
	set := decoded[v1alpha1.ApplicationSet](t, objects, "ApplicationSet/copyhold-tenants")
	platform := decoded[v1alpha1.Application](t, objects, "Application/copyhold-platform")
	const photon, quark, catalog = 1, 2, 4
	apps := map[int]*v1alpha1.Application{photon: tenantApplication(t, set, "photon-prod"), quark: tenantApplication(t, set, "quark-dev"), catalog: &platform}
	for file, want := range map[string]int{
		"tenants/photon-prod/solar.yaml":                      photon | catalog,
		"tenants/quark-dev/solar.yaml":                        quark | catalog,
		"tenants/photon-prod-2/solar.yaml":                    catalog,
		"ledger/clusters/photon-prod/solar.yaml":              photon | catalog,
		"ledger/clusters/quark-dev/solar.yaml":                quark | catalog,
		"ledger/addresses/tenant-cp-pool/172.21.208.100.yaml": 0,
		"catalog/catalog.yaml":                                photon | quark | catalog,
		"catalog/classes/kmetal/templates/_variables.tpl":     photon | quark | catalog,
		"catalog/overlays/cost-centre/kustomization.yaml":     photon | quark | catalog,
		"copyhold.yaml":                                       photon | quark | catalog,
		"README.md":                                           0,
		".github/workflows/check.yaml":                        0,
	} {
		got := 0
		for bit, app := range apps {
			if path.AppFilesHaveChanged(path.GetAppRefreshPaths(app), []string{file}) {
				got |= bit
			}
		}
		if got != want {
			t.Errorf("a change of %s renders %03b anew, want %03b (platform, quark-dev, photon-prod)", file, got, want)
		}
	}
}

// installed is Argo CD's own installation of this release with the component of the examples.
func installed(t *testing.T) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	module := strings.TrimSpace(string(run(t, ".", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/argoproj/argo-cd/v2")))
	for to, from := range map[string]string{"manifests": filepath.Join(module, "manifests"), "copyhold": filepath.Join(examples, "install")} {
		if err := os.CopyFS(filepath.Join(dir, to), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, "kustomization.yaml", `
namespace: argocd
resources: [manifests/namespace-install]
components: [copyhold]
images: [{name: copyhold, newName: images.example.org/copyhold, newTag: v1}]
`)
	return kustomized(t, dir)
}

// The component goes onto Argo CD's own Deployment, which has what the sidecar needs.
func TestExampleInstall(t *testing.T) {
	objects := installed(t)
	d := decoded[appsv1.Deployment](t, objects, "Deployment/argocd-repo-server")
	pod := d.Spec.Template.Spec
	i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == "copyhold" })
	if i < 0 || len(pod.Containers) != 2 {
		t.Fatalf("the Deployment has %d containers, copyhold is number %d", len(pod.Containers), i)
	}
	c := pod.Containers[i]
	if c.Image != "images.example.org/copyhold:v1" {
		t.Errorf("image %s", c.Image)
	}
	mounts := map[string]string{}
	for _, m := range c.VolumeMounts {
		mounts[m.MountPath] = m.Name
		if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
			t.Errorf("there is no volume %s", m.Name)
		}
	}
	repoServer := pod.Containers[1-i]
	for _, m := range repoServer.VolumeMounts {
		if m.Name == mounts["/tmp"] {
			t.Errorf("the sidecar shares %s with the repo-server", m.MountPath)
		}
		if m.MountPath == common.DefaultPluginSockFilePath && m.Name != mounts[common.DefaultPluginSockFilePath] {
			t.Errorf("the sockets are in volume %s, and the repo-server looks in %s", mounts[common.DefaultPluginSockFilePath], m.Name)
		}
	}
	// An init container of Argo CD's puts the server where the sidecar's command is.
	if len(pod.InitContainers) != 1 || !slices.Contains(pod.InitContainers[0].Command, c.Command[0]) || pod.InitContainers[0].VolumeMounts[0].Name != mounts["/var/run/argocd"] {
		t.Errorf("init containers %+v do not make %s", pod.InitContainers, c.Command[0])
	}
	s := c.SecurityContext
	if !*s.RunAsNonRoot || *s.RunAsUser != 999 || !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation {
		t.Errorf("security context %+v", s)
	}
	if len(c.Env)+len(c.EnvFrom) > 0 {
		t.Errorf("the sidecar has an environment: %v", c.Env)
	}
	cm := decoded[corev1.ConfigMap](t, objects, "ConfigMap/argocd-cm")
	if got := cm.Data["application.resourceTrackingMethod"]; got != string(argo.TrackingMethodAnnotation) {
		t.Errorf("tracking by %q", got)
	}
	params := decoded[corev1.ConfigMap](t, objects, "ConfigMap/argocd-cmd-params-cm")
	if params.Data["reposerver.plugin.tar.exclusions"] != ".git" {
		t.Errorf("parameters %v", params.Data)
	}
}
