package controlplane

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestGate runs the gate's hook as Argo CD and the kubelet would: the rendered ConfigMaps are applied and put into a folder, and the
// Job's arguments are given to copyhold, which asks the API server with a token of the Job's ServiceAccount. It may do what the rendered
// roles say, and no more.
func TestGate(t *testing.T) {
	t.Parallel()
	const ns, classes = "gate", "gate-classes"
	r := baseOf(t, ns, edit{prepare: catalog("  policy:", "  gate: {image: registry.example.org/copyhold:v1, mode: warn, namespace: gate-classes}\n  policy:")})
	w := newWorld(t, ns, classes, "metallb")
	platform, tenants := r.render("catalog"), r.render("tenants/"+ns)
	w.accept(synced(platform))
	w.settle(time.Time{})

	first := w.gate(r, "tenants/"+ns, 0)
	first.says(t, "it is new", "nothing", ns+"/solar")
	w.accept(synced(tenants))
	w.arrived()
	w.gate(r, "tenants/"+ns, 0).says(t, "nothing changes", "nothing")
	w.gate(r, "catalog", 0).says(t, "nothing changes, of the class", "nothing")

	// What a request changes is said before the sync, and comes with it.
	before := w.look()
	edited := copyOf(t, r.root)
	request("size: small", "size: medium")(edited)
	allocated(edited)
	w.gate(edited, "tenants/"+ns, 0).says(t, "another size", "WorkersWillRoll "+ns+"/solar", "WILL ROLL     "+ns+"/solar  md-0  (1 machine)", "wrote 1 of 1 Events")
	w.accept(synced(edited.render("tenants/" + ns)))
	w.touch()
	if got, want := happened(before, w.look()), []string{ns + "/solar md-0 rollout"}; !slices.Equal(got, want) {
		t.Errorf("after the sync: %q, want %q", got, want)
	}
	w.gate(edited, "tenants/"+ns, 0).says(t, "after the sync", "nothing")

	// What the class changes is said by the platform's gate.
	r = copyOf(t, edited.root)
	chart("values.yaml", "cores: 4", "cores: 5")(r)
	allocated(r)
	w.gate(r, "catalog", 0).says(t, "another class", "GateNotChecked "+classes+"/copyhold-gate-platform, WorkersWillRoll "+ns+"/solar", "not checked: Clusters outside of the namespaces of this repository", "WILL ROLL     "+ns+"/solar  md-0  (1 machine)")

	w.permissionsMissing(r, ns, classes, platform)
}

// permissionsMissing takes roles away from the gates, one after the other.
func (w *world) permissionsMissing(r repository, ns, classes string, platform []*unstructured.Unstructured) {
	w.t.Helper()
	remove := func(namespace, name string) (restore func()) {
		w.t.Helper()
		o := find(platform, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{"namespace": namespace, "name": name},
		}})
		if o == nil {
			w.t.Fatalf("no RoleBinding %s/%s is rendered", namespace, name)
		}
		if err := w.of(o).Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
		return func() { w.accept([]*unstructured.Unstructured{o}) }
	}
	restore := remove(classes, "copyhold-gate-classes")
	w.gate(r, "tenants/"+ns, 0).says(w.t, "no role for classes", "GateNotChecked "+ns+"/copyhold-gate, WorkersWillRoll "+ns+"/solar",
		"no permission to get clusterclasses.cluster.x-k8s.io in namespace "+classes, "Role and RoleBinding copyhold-gate-classes in namespace "+classes+" grant it to ServiceAccount "+ns+"/copyhold-gate: sync the platform application")
	restore()

	restore = remove(ns, "copyhold-gate")
	w.gate(r, "catalog", 0).says(w.t, "the platform has no role in the tenant's namespace", "GateNotChecked "+classes+"/copyhold-gate-platform",
		"no permission to list clusters.cluster.x-k8s.io in namespace "+ns)
	w.gate(r, "tenants/"+ns, 3).says(w.t, "no role at all", "nothing",
		"no permission to create events.events.k8s.io in namespace "+ns, "NOT CHECKED: no Cluster could be looked at, and no Event says so")
	restore()
	w.gate(r, "catalog", 0).says(w.t, "the roles are there again", "GateNotChecked "+classes+"/copyhold-gate-platform, WorkersWillRoll "+ns+"/solar")
}

// gated is what came of a run of the gate: what it printed, and its new Events, as reason and what they are about.
type gated struct {
	text   string
	events []string
}

// says checks a run: its Events, of which several are parted by commas, or "nothing", and texts that are printed.
func (g gated) says(t *testing.T, when, events string, texts ...string) {
	t.Helper()
	var want []string
	if events != "nothing" {
		want = strings.Split(events, ", ")
	}
	if !slices.Equal(g.events, want) {
		t.Errorf("%s: Events are %q, want %q\n%s", when, g.events, want, g.text)
	}
	for _, s := range texts {
		if !strings.Contains(g.text, s) {
			t.Errorf("%s: nothing is said of %q:\n%s", when, s, g.text)
		}
	}
	if len(want) == 0 && strings.Contains(g.text, "WILL ROLL") {
		t.Errorf("%s: a rollout is foretold without an Event:\n%s", when, g.text)
	}
}

// synced are the objects of an application without its hooks.
func synced(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), isHook)
}

func isHook(o *unstructured.Unstructured) bool {
	return o.GetAnnotations()["argocd.argoproj.io/hook"] != ""
}

var events = resource("events.k8s.io/v1", "events")

// gate runs the hook of an application, which has to end with an exit code.
func (w *world) gate(r repository, path string, code int) gated {
	w.t.Helper()
	hooks := slices.DeleteFunc(r.render(path), func(o *unstructured.Unstructured) bool { return !isHook(o) })
	w.accept(slices.DeleteFunc(slices.Clone(hooks), func(o *unstructured.Unstructured) bool { return o.GetKind() == "Job" }))
	job := hooks[slices.IndexFunc(hooks, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Job" })]
	if _, err := w.applyOne(job, func(o *metav1.PatchOptions) { o.DryRun = []string{metav1.DryRunAll} }); err != nil {
		w.t.Fatal(err)
	}
	pod := field(job, "spec", "template", "spec").(map[string]any)
	var args []string
	for _, a := range pod["containers"].([]any)[0].(map[string]any)["args"].([]any) {
		args = append(args, strings.Replace(a.(string), "/wanted", w.mounted(job.GetNamespace(), pod), 1))
	}
	before := w.gateEvents()
	c := exec.Command(copyhold, append(args, "--kubeconfig", w.kubeconfigOf(job.GetNamespace(), pod["serviceAccountName"].(string)), "--patience", "5s")...)
	var text bytes.Buffer
	c.Stdout, c.Stderr = &text, &text
	err := c.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		w.t.Fatal(err)
	}
	if got := c.ProcessState.ExitCode(); got != code {
		w.t.Errorf("the gate of %s ends with %d, want %d:\n%s", path, got, code, text.String())
	}
	out := gated{text: text.String()}
	for name, what := range w.gateEvents() {
		if before[name] == "" {
			out.events = append(out.events, what)
		}
	}
	slices.Sort(out.events)
	return out
}

// mounted is a folder as the Job's projected volume would be, of the ConfigMaps as they are in the API server.
func (w *world) mounted(namespace string, pod map[string]any) string {
	w.t.Helper()
	dir := w.t.TempDir()
	volume := pod["volumes"].([]any)[0].(map[string]any)["projected"].(map[string]any)
	for _, s := range volume["sources"].([]any) {
		s := s.(map[string]any)["configMap"].(map[string]any)
		cm := w.get(resource("v1", "configmaps"), namespace, s["name"].(string))
		for _, item := range s["items"].([]any) {
			item := item.(map[string]any)
			if err := os.WriteFile(filepath.Join(dir, item["path"].(string)), []byte(text(cm, "data", item["key"].(string))), 0o600); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	return dir
}

// kubeconfigOf is a file with a token of a ServiceAccount, as a pod of it has.
func (w *world) kubeconfigOf(namespace, account string) string {
	w.t.Helper()
	answer, err := w.c.Resource(resource("v1", "serviceaccounts")).Namespace(namespace).Create(w.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": map[string]any{"name": account}, "spec": map[string]any{},
	}}, metav1.CreateOptions{}, "token")
	if err != nil {
		w.t.Fatal(err)
	}
	file := filepath.Join(w.t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, live.kubeconfigFor(text(answer, "status", "token")), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return file
}

// gateEvents are the Events of gates by name, as reason and what they are about. Each is checked.
func (w *world) gateEvents() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for _, e := range w.list(events) {
		if text(e, "reportingController") != "copyhold.dev/gate" {
			continue
		}
		what := fmt.Sprintf("%s %s/%s", text(e, "reason"), text(e, "regarding", "namespace"), text(e, "regarding", "name"))
		out[e.GetNamespace()+"/"+e.GetName()] = what
		if text(e, "type") != "Warning" || text(e, "note") == "" {
			w.t.Errorf("Event %s is a %s with note %q", what, text(e, "type"), text(e, "note"))
		}
		if text(e, "regarding", "kind") == "Cluster" {
			if c := w.get(clusters, text(e, "regarding", "namespace"), text(e, "regarding", "name")); string(c.GetUID()) != text(e, "regarding", "uid") {
				w.t.Errorf("Event %s is about the uid %s, want %s", what, text(e, "regarding", "uid"), c.GetUID())
			}
		}
	}
	return out
}
