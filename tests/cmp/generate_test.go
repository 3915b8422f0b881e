package cmp

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/argoproj/argo-cd/v2/cmpserver/plugin"
	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"
)

var applications = []string{"catalog", "tenants/dynamo-prod", "tenants/photon-prod", "tenants/quark-dev"}

// appEnv is what Argo CD sets for every application.
func appEnv(more ...string) []string {
	return append([]string{
		"ARGOCD_APP_NAME=photon-prod", "ARGOCD_APP_NAMESPACE=photon-prod", "ARGOCD_APP_REVISION=0123456789abcdef0123456789abcdef01234567",
		"ARGOCD_APP_SOURCE_PATH=tenants/photon-prod", "ARGOCD_APP_SOURCE_REPO_URL=https://git.example.org/tenants.git",
		"ARGOCD_APP_SOURCE_TARGET_REVISION=main", "KUBE_VERSION=1.34.1", "KUBE_API_VERSIONS=v1,apps/v1", "ARGOCD_APP_PARAMETERS=null",
	}, more...)
}

// withParameters is appEnv with parameters, written as Argo CD writes them.
func withParameters(t testing.TB, p v1alpha1.ApplicationSourcePluginParameters, more ...string) []string {
	t.Helper()
	env, err := p.Environ()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(slices.DeleteFunc(appEnv(), func(e string) bool { return strings.HasPrefix(e, "ARGOCD_APP_PARAMETERS=") }), env, more)
}

func array(name string, values ...string) v1alpha1.ApplicationSourcePluginParameter {
	return v1alpha1.ApplicationSourcePluginParameter{Name: name, OptionalArray: &v1alpha1.OptionalArray{Array: values}}
}

// Argo CD's own reader takes plugin.yaml, and finds neither a discovery nor a version in it.
func TestPluginConfig(t *testing.T) {
	c, err := plugin.ReadPluginConfig("../../plugin")
	if err != nil {
		t.Fatal(err)
	}
	if c.Metadata.Name != "copyhold" || c.Spec.Version != "" || c.Spec.Discover.IsDefined() || c.Spec.PreserveFileMode || c.Spec.ProvideGitCreds {
		t.Errorf("plugin.yaml is %+v", c)
	}
	if got := strings.Join(c.Spec.Parameters.Dynamic.Command, " "); got != "copyhold plugin parameters" {
		t.Errorf("parameters are announced by %q", got)
	}
}

// What Argo CD gets is what copyhold render prints, whatever travels with the repository.
func TestGenerate(t *testing.T) {
	s := sidecar(t)
	root := fleet(t)
	commit(t, root)
	for _, path := range applications {
		want := rendered(t, root, path)
		for name, exclude := range map[string][]string{"as it is": nil, "without .git": {".git"}} {
			got, err := s.generate(t.Context(), call{root: root, path: path, env: appEnv(), exclude: exclude})
			if err != nil {
				t.Errorf("%s, %s: %v", path, name, err)
			} else if !slices.Equal(got, want) {
				t.Errorf("%s, %s: got\n%s\nwant\n%s", path, name, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
}

// Links of the repository arrive as absolute ones, into the server's own copy.
func TestGenerateLinks(t *testing.T) {
	s := sidecar(t)
	root := fleet(t)
	want := rendered(t, root, "tenants/photon-prod")
	move := func(from, to, link string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, to)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(root, from), filepath.Join(root, to)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(link, filepath.Join(root, from)); err != nil {
			t.Fatal(err)
		}
	}
	move("tenants/photon-prod/solar.yaml", "shared/solar.yaml", "../../shared/solar.yaml")
	move("catalog/classes", "shared/classes", "../shared/classes")
	move("ledger/clusters/photon-prod", "shared/records", "../../shared/records")
	got, err := s.generate(t.Context(), call{root: root, path: "tenants/photon-prod", env: appEnv()})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("with links: %v\n%s", err, strings.Join(got, "\n"))
	}
	for _, hostile := range []struct{ link, want string }{
		{"../../../../../../../../etc/passwd", "illegal filepath in symlink"}, // Argo CD's own refusal
		{"/etc/passwd", "tenants/photon-prod/hostile.yaml: the link leads to nothing [request/broken-link]"},
		{"nothing.yaml", "tenants/photon-prod/hostile.yaml: the link leads to nothing [request/broken-link]"},
		{"hostile.yaml", "tenants/photon-prod/hostile.yaml: the link leads to nothing [request/broken-link]"},
	} {
		file := filepath.Join(root, "tenants/photon-prod/hostile.yaml")
		if err := os.Symlink(hostile.link, file); err != nil {
			t.Fatal(err)
		}
		got, err := s.generate(t.Context(), call{root: root, path: "tenants/photon-prod", env: appEnv()})
		if err == nil || !strings.Contains(err.Error(), hostile.want) {
			t.Errorf("a link to %s: %v, want %q\n%s", hostile.link, err, hostile.want, strings.Join(got, "\n"))
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

// withoutHook leaves out the Job and the ConfigMap of the gate.
func withoutHook(objects []string) []string {
	return slices.DeleteFunc(slices.Clone(objects), func(m string) bool { return strings.Contains(m, `"argocd.argoproj.io/hook":"PreSync"`) })
}

// Parameters, as Argo CD writes them, leave out; what would change how a folder is rendered is refused.
func TestParameters(t *testing.T) {
	s := sidecar(t)
	root := fleet(t)
	c := call{root: root, path: "tenants/photon-prod"}
	c.env = withParameters(t, v1alpha1.ApplicationSourcePluginParameters{array("clusters", "solar", "tidal"), array("kinds", "Cluster")})
	got, err := s.generate(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.DeleteFunc(rendered(t, root, c.path), func(m string) bool {
		return !strings.Contains(m, `"kind":"Cluster"`) || !strings.Contains(m, `"name":"solar","namespace"`) && !strings.Contains(m, `"name":"tidal","namespace"`)
	})
	if hook := len(got) - len(want); len(want) != 2 || hook != 2 || !slices.Equal(withoutHook(got), want) { // no parameter takes the gate away
		t.Errorf("two clusters: %s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	text := "allow"
	for name, env := range map[string][]string{
		`unknown parameter "policy", want one of clusters, kinds`:                  withParameters(t, v1alpha1.ApplicationSourcePluginParameters{{Name: "policy", String_: &text}}),
		`the Application sets "COPYHOLD_POLICY" in spec.source.plugin.env`:         appEnv("ARGOCD_ENV_COPYHOLD_POLICY=allow"),
		`parameter "clusters" names cluster "polar", which is not asked for`:       withParameters(t, v1alpha1.ApplicationSourcePluginParameters{array("clusters", "polar")}),
		`parameter "clusters" has no value`:                                        withParameters(t, v1alpha1.ApplicationSourcePluginParameters{array("clusters")}),
		`parameter "kinds" names kind "IPAddressPool", which is not rendered here`: withParameters(t, v1alpha1.ApplicationSourcePluginParameters{array("kinds", "IPAddressPool")}),
	} {
		c.env = env
		if got, err := s.generate(t.Context(), c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v: want %q\n%s", err, name, strings.Join(got, "\n"))
		}
	}
}

// The announcement is what Argo CD's own types decode.
func TestParametersAnnouncement(t *testing.T) {
	s := sidecar(t)
	root := fleet(t)
	for path, want := range map[string][]string{"tenants/photon-prod": {"clusters", "kinds"}, "catalog": {"kinds"}} {
		r, err := s.parameters(t.Context(), call{root: root, path: path, env: []string{"ARGOCD_APP_NAME=x"}})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		var names []string
		for _, p := range r.ParameterAnnouncements {
			names = append(names, p.Name)
			if p.Title == "" || p.Tooltip == "" || p.CollectionType != "array" || p.Required || len(p.Array) > 0 {
				t.Errorf("%s: %+v", path, p)
			}
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s announces %q, want %q", path, names, want)
		}
		if path != "catalog" && !strings.Contains(r.ParameterAnnouncements[0].Tooltip, "lunar, solar, stellar, tidal") {
			t.Errorf("tooltip %q", r.ParameterAnnouncements[0].Tooltip)
		}
	}
}

// What fails says why, whole, and gives no manifest.
func TestRefusals(t *testing.T) {
	s := sidecar(t)
	for name, c := range map[string]struct {
		spoil func(root string)
		path  string
		want  []string // all of them in the message
	}{
		"a bad request": {func(root string) {
			write(t, root, "tenants/photon-prod/wrong.yaml", "apiVersion: copyhold.dev/v1alpha1\nkind: ClusterRequest\nmetadata: {name: wrong}\nspec: {tier: kubeadm, version: v1.34.1, subnet: production, workers: {md-0: {size: huge}}}\n")
		}, "tenants/photon-prod", []string{
			"tenants/photon-prod/wrong.yaml:3:18: cluster \"photon-prod/wrong\" has no address in the ledger [ledger/no-address]\n  hint: copyhold allocate gives it one of address pool \"tenant-cp-pool\"\n",
			"tenants/photon-prod/wrong.yaml:4:84: workers.md-0.size \"huge\": want one of small, medium, large, custom [variable/invalid]",
		}},
		"another namespace": {func(root string) {
			write(t, root, "tenants/photon-prod/wrong.yaml", "apiVersion: copyhold.dev/v1alpha1\nkind: ClusterRequest\nmetadata: {name: wrong, namespace: quark-dev}\nspec: {tier: kubeadm, version: v1.34.1, subnet: production}\n")
		}, "tenants/photon-prod", []string{"tenants/photon-prod/wrong.yaml:3:36: "}},
		"a file that changes the Application": {func(root string) {
			write(t, root, "tenants/photon-prod/.argocd-source.yaml", "plugin: {name: other, env: [{name: COPYHOLD_POLICY, value: allow}]}\n")
		}, "tenants/photon-prod", []string{"tenants/photon-prod/.argocd-source.yaml: ", "[request/argocd-source]"}},
		"a file that changes one Application": {func(root string) {
			write(t, root, "tenants/photon-prod/.argocd-source-photon-prod.yaml", "plugin: {parameters: [{name: clusters, array: [solar]}]}\n")
		}, "tenants/photon-prod", []string{"tenants/photon-prod/.argocd-source-photon-prod.yaml: ", "[request/argocd-source]"}},
		"a root of the tenant's own": {func(root string) {
			write(t, root, "tenants/photon-prod/copyhold.yaml", "apiVersion: copyhold.dev/v1alpha1\nkind: Repository\n")
		}, "tenants/photon-prod", []string{"copyhold: copyhold.yaml is in tenants/photon-prod and in the root of the repository above it: which is the root?"}},
		"an empty folder": {func(root string) {
			write(t, root, "tenants/solo-dev/README.md", "# nothing yet\n")
		}, "tenants/solo-dev", []string{"nothing to render in tenants/solo-dev [render/nothing]"}},
		"a placeholder": {func(root string) {
			edit(t, root, "catalog/catalog.yaml", "    fields: {cidr", "    placeholder: true\n    fields: {cidr")
		}, "tenants/photon-prod", []string{"network.example.org/v1alpha1 SubnetClaim is a placeholder: nobody has confirmed it [catalog/placeholder]"}},
		"a folder that is no application's": {func(string) {}, "ledger", []string{`nothing is rendered from "ledger", want the root, catalog, tenants, or a folder or file in it [path/unknown]`}},
	} {
		t.Run(name, func(t *testing.T) {
			root := fleet(t)
			c.spoil(root)
			got, err := s.generate(t.Context(), call{root: root, path: c.path, env: appEnv()})
			if err == nil {
				t.Fatalf("it is rendered:\n%s", strings.Join(got, "\n"))
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the message lacks %q:\n%v", want, err)
				}
			}
			if strings.Contains(err.Error(), "_cmp_server") || len(got) > 0 {
				t.Errorf("the message names a temporary folder, or there are manifests:\n%v\n%s", err, strings.Join(got, "\n"))
			}
		})
	}
}

// However much is wrong, the message arrives, and is one that a person can read in the user interface.
func TestLongMessage(t *testing.T) {
	s := sidecar(t)
	root := fleet(t)
	for i := range 2000 {
		name := "wrong-" + string(rune('a'+i%26)) + strings.Repeat("x", i/26%40) + string(rune('a'+i/26/40))
		write(t, root, "tenants/photon-prod/"+name+".yaml", "kind: [\n")
	}
	_, err := s.generate(t.Context(), call{root: root, path: "tenants/photon-prod", env: appEnv()})
	if err == nil {
		t.Fatal("it is rendered")
	}
	got := err.Error()
	at := strings.Index(got, "tenants/photon-prod/wrong-")
	if at < 0 || at > 300 || len(got)-at > 4<<10 || !strings.HasSuffix(got, " more, 1980 of them errors: copyhold check shows them all\n") && !strings.Contains(got, "of them errors: copyhold check shows them all") {
		t.Errorf("the message has %d bytes, the first finding at %d:\n%s", len(got), at, got)
	}
}

// The lock, which the example fleet has for photon-prod: a rollout that nobody has accepted is refused, through the server as well; once it is accepted it is rendered.
func TestLock(t *testing.T) {
	s := sidecar(t)
	root := fleet(t)
	c := call{root: root, path: "tenants/photon-prod", env: appEnv()}
	before, err := s.generate(t.Context(), c)
	if err != nil {
		t.Fatalf("before the change: %v", err)
	}
	edit(t, root, "catalog/classes/kmetal/values.yaml", "small: {cores: 2", "small: {cores: 5")
	_, err = s.generate(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "of photon-prod/solar would be replaced") || !strings.Contains(err.Error(), "[rollout/unacknowledged]") || !strings.Contains(err.Error(), "copyhold ack photon-prod/solar accepts it") {
		t.Errorf("an edit of the class: %v", err)
	}
	// A cluster that is not touched can have an application of its own.
	apart := c
	apart.env = withParameters(t, v1alpha1.ApplicationSourcePluginParameters{array("clusters", "lunar"), array("kinds", "Cluster")})
	if got, err := s.generate(t.Context(), apart); err != nil || len(withoutHook(got)) != 1 {
		t.Errorf("an application of the untouched cluster: %v, %d objects", err, len(got))
	}
	run(t, root, copyhold, "ack", "tenants/photon-prod", "--reason", "more cores")
	after, err := s.generate(t.Context(), c)
	if err != nil || len(after) != len(before) || slices.Equal(after, before) {
		t.Errorf("accepted: %v, %d objects, want %d with other hashes", err, len(after), len(before))
	}
}

// Many applications at once, of several folders: each gets its own.
func TestParallel(t *testing.T) {
	s := sidecar(t)
	root := fleet(t)
	want := map[string][]string{}
	for _, path := range applications {
		want[path] = rendered(t, root, path)
	}
	const calls = 52
	started := time.Now()
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			path := applications[i%len(applications)]
			got, err := s.generate(t.Context(), call{root: root, path: path, env: appEnv()})
			if err != nil || !slices.Equal(got, want[path]) {
				t.Errorf("call %d, of %s: %v, %d objects", i, path, err, len(got))
			}
		})
	}
	wg.Wait()
	t.Logf("%d calls at once took %v", calls, time.Since(started).Round(10*time.Millisecond))
	s.idle(t)
}

// A call whose time is up gives all or nothing, wherever it was stopped; nothing of it is left, and the next one is served.
func TestDeadline(t *testing.T) {
	s := sidecar(t)
	c := call{root: fleet(t), path: "tenants/photon-prod", env: appEnv()}
	want := rendered(t, c.root, c.path)
	stopped := 0
	for ms := 1; ms < 200; ms = ms*3/2 + 1 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(ms)*time.Millisecond)
		got, err := s.generate(ctx, c)
		switch {
		case err != nil && len(got) == 0: // the server gives up a little before its caller does
			stopped++
		case err != nil || !slices.Equal(got, want):
			t.Errorf("a call of %d ms: %v, %d objects", ms, err, len(got))
		}
		cancel()
	}
	if stopped == 0 {
		t.Error("no call was stopped")
	}
	got, err := s.generate(t.Context(), c)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the next call: %v, %d objects", err, len(got))
	}
	s.idle(t)
}

// One object is one JSON document that Argo CD reads as the object that was printed.
func TestObjects(t *testing.T) {
	got, err := sidecar(t).generate(t.Context(), call{root: fleet(t), path: "tenants/photon-prod", env: appEnv()})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range got {
		var o struct {
			Kind     string
			Metadata struct{ Namespace string }
		}
		if err := json.Unmarshal([]byte(m), &o); err != nil || !slices.Contains([]string{"Cluster", "SubnetClaim", "ConfigMap", "Job"}, o.Kind) || o.Metadata.Namespace != "photon-prod" {
			t.Errorf("%v: %s", err, m)
		}
	}
}
