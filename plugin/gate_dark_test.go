package plugin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"copyhold.dev/copyhold/render/gate"
)

// says checks what a gate prints: each of the texts, or with ! before it that it is not there.
func says(t *testing.T, got string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if absent, not := strings.CutPrefix(text, "!"); not && strings.Contains(got, absent) || !not && !strings.Contains(got, text) {
			t.Errorf("want %q of\n%s", text, got)
		}
	}
}

// An API server that takes a connection and says nothing is not waited for: neither where the client looks for kinds, which knows no
// deadline of ours, nor when the Job is told to end.
func TestGateSilence(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	server := "http://" + l.Addr().String()
	api, err := NewAPI(&restclient.Config{Host: server})
	if err != nil {
		t.Fatal(err)
	}
	w := gate.Wanted{Head: gate.Head{Application: "tenants/photon-prod", Job: "photon-prod/copyhold-gate", Namespaces: []string{"photon-prod"}}}
	var log strings.Builder
	g := Gate{API: api, Server: server, Log: &log, Now: time.Now, Patience: time.Minute, Deadline: 200 * time.Millisecond}
	const begin = "NOT CHECKED: nobody knows what this sync of tenants/photon-prod does to machines: "
	if err := g.Run(t.Context(), w); err == nil || !strings.HasPrefix(err.Error(), begin+"the API server at "+server+" did not answer all that was asked within 150ms: ") || log.Len() > 0 {
		t.Errorf("%v\n%s", err, log.String())
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("terminated signal received"))
	g.Deadline = time.Hour
	if err := g.Run(ctx, w); err == nil || !strings.HasPrefix(err.Error(), begin+"terminated signal received ") {
		t.Error(err)
	}
}

// What was found is said, whoever does not answer afterwards.
func TestGateSilentEvents(t *testing.T) {
	wanted, w := wantedOf(t, repository(t, newClass), "tenants/dynamo-prod"), worldOf(t, repository(t))
	ctx, end := context.WithCancelCause(t.Context())
	w.until, w.patience = ctx, time.Hour
	tried := 0
	w.funcs = interceptor.Funcs{Create: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.CreateOption) error {
		tried++
		end(errors.New("the time is up"))
		<-ctx.Done()
		return ctx.Err()
	}}
	says(t, w.run(t, wanted), "3 worker pools WILL ROLL (5 machines)\n", "wrote 0 of 3 Events\n", "Events could not be written: the time is up (", "!ERROR")
	if tried != 1 {
		t.Errorf("an API server that does not answer was asked %d times", tried)
	}
}

// An Event that is refused in one namespace, for whatever reason, is none of the others' business, and it is said once.
func TestGateRefusedEvents(t *testing.T) {
	wanted, base := wantedOf(t, repository(t, newClass), "catalog"), worldOf(t, repository(t))
	events := schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
	for said, err := range map[string]error{
		"no permission to create events.events.k8s.io in namespace quark-dev\n  the API server says: events.events.k8s.io \"x\" is forbidden: exceeded quota: count\n": apierrors.NewForbidden(events, "x", errors.New("exceeded quota: count")),
		"no Event could be written in namespace quark-dev\n  the API server says: admission webhook \"x\" denied the request: no\n":                                    apierrors.NewBadRequest("admission webhook \"x\" denied the request: no"),
		"no Event could be written in namespace quark-dev\n  the API server says: events.events.k8s.io \"x\" not found\n":                                              apierrors.NewNotFound(events, "x"),
	} {
		w, tried := base.copied(), 0
		w.funcs = interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if o.GetNamespace() == "quark-dev" {
				tried++
				return err
			}
			return c.Create(ctx, o, opts...)
		}}
		got := w.run(t, wanted)
		says(t, got, "9 worker pools WILL ROLL (14 machines)\n", "wrote 5 of 9 Events\n"+said, "EVENT Warning WorkersWillRoll Cluster photon-prod/solar", "!hint:", "!ERROR")
		if tried != 1 {
			t.Errorf("%v: tried %d times", err, tried)
		}
	}
	w := base.copied()
	w.deny(refusing("create", "events"))
	says(t, w.run(t, wanted), "wrote 0 of 9 Events\n", "in namespace dynamo-prod\n", "  hint: Role and RoleBinding copyhold-gate in namespace dynamo-prod grant it to ServiceAccount kmetal-capi-providers/copyhold-gate-platform: ",
		"nor in 2 more namespaces, photon-prod the first\n", "!in namespace quark-dev\n", "!ERROR")
}

// Pages of a list belong together. An API server that has forgotten their moment is asked for all of it again, but not without end.
func TestGateExpired(t *testing.T) {
	root := repository(t, bigger)
	wanted, base := wantedOf(t, root, "tenants/dynamo-prod"), worldOf(t, repository(t))
	whole := base.run(t, wanted)
	for expired, want := range map[int]string{
		2: whole,
		3: "ERROR NOT CHECKED: nobody knows what this sync of tenants/dynamo-prod does to machines: the API server forgot the list of Clusters 3 times before it was read: The provided continue parameter is too old\n",
	} {
		w, left := base.copied(), expired
		w.funcs = interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			o := (&client.ListOptions{}).ApplyOptions(opts)
			list := l.(*unstructured.UnstructuredList)
			next := o.Continue
			if o.Continue = ""; next != "" && left > 0 {
				left--
				return apierrors.NewResourceExpired("The provided continue parameter is too old")
			}
			if err := c.List(ctx, l, o); err != nil {
				return err
			}
			if half := len(list.Items) / 2; next == "" {
				list.Items = list.Items[:half]
				list.SetContinue("half")
			} else {
				list.Items = list.Items[half:]
			}
			return nil
		}}
		if got := w.run(t, wanted); got != want {
			t.Errorf("expired %d times:\n%s\nwant\n%s", expired, got, want)
		}
	}
}

// Where nobody could look, no gate is green without a trace; and where the policy wants each rollout accepted, not even with one.
func TestGateUnseen(t *testing.T) {
	tenant, platform := wantedOf(t, repository(t), "tenants/dynamo-prod"), wantedOf(t, repository(t, newClass), "catalog")
	base := worldOf(t, repository(t))
	noKind := func(_, resource string) error {
		if resource == "clusters" {
			return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Cluster"}}
		}
		return nil
	}

	alone := base.copied()
	alone.deny(refusing("list", "clusters"))
	w := platform
	w.Namespaces, w.Clusters = nil, nil
	says(t, alone.run(t, w), "copyhold gate: NOT CHECKED: nobody knows", "not checked: Clusters outside of the namespaces of this repository, which may be of a class that changes\n",
		"  hint: a ClusterRole of your own that lets ServiceAccount kmetal-capi-providers/copyhold-gate-platform list", "EVENT Warning GateNotChecked Job "+w.Job, "!nothing runs yet", "!ERROR")

	refused := base.copied()
	refused.deny(refusing("list", "clusters"))
	w = tenant
	w.Acknowledge = true
	says(t, refused.run(t, w), "EVENT Warning GateNotChecked Job "+w.Job, "ERROR NOT CHECKED: no Cluster could be looked at, and the policy acknowledge lets no rollout pass that nobody has seen\n")

	unserved := base.copied()
	unserved.deny(func(_, resource string) error {
		if resource == "kubevirtmachinetemplates" {
			return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "infrastructure.cluster.x-k8s.io", Kind: "KubevirtMachineTemplate"}}
		}
		return nil
	})
	says(t, unserved.run(t, tenant), "copyhold gate: of what could be looked at of tenants/dynamo-prod no machine is replaced; NOT EVERYTHING WAS CHECKED\n",
		"not checked: the API server has no KubevirtMachineTemplate of infrastructure.cluster.x-k8s.io/v1alpha1\n", "EVENT Warning GateNotChecked Job "+tenant.Job, "!ERROR")
	unserved.deny(noKind, refusing("get", "clusterclasses"))
	says(t, unserved.run(t, tenant), "copyhold gate: nothing to compare tenants/dynamo-prod with", "!not checked", "!EVENT", "!ERROR")
}

// An API server that has Clusters in a version that is not rendered is none without Clusters.
func TestGateOlderVersion(t *testing.T) {
	answers := map[string]string{
		"GET /api":                           `{"kind": "APIVersions", "versions": ["v1"]}`,
		"GET /apis":                          `{"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "cluster.x-k8s.io", "versions": [{"groupVersion": "cluster.x-k8s.io/v1beta1", "version": "v1beta1"}]}, {"name": "events.k8s.io", "versions": [{"groupVersion": "events.k8s.io/v1", "version": "v1"}]}]}`,
		"GET /apis/cluster.x-k8s.io/v1beta1": `{"kind": "APIResourceList", "groupVersion": "cluster.x-k8s.io/v1beta1", "resources": [{"name": "clusters", "kind": "Cluster", "namespaced": true}]}`,
		"GET /apis/events.k8s.io/v1":         `{"kind": "APIResourceList", "groupVersion": "events.k8s.io/v1", "resources": [{"name": "events", "kind": "Event", "namespaced": true}]}`,
		"POST /apis/events.k8s.io/v1/namespaces/photon-prod/events": `{"kind": "Event", "apiVersion": "events.k8s.io/v1"}`,
	}
	written := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.Method+" "+r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`
		}
		if r.Method == "POST" {
			written++
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer s.Close()
	api, err := NewAPI(&restclient.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	for _, platform := range []bool{false, true} {
		var log strings.Builder
		g := Gate{API: api, Log: &log, Now: time.Now}
		err = g.Run(t.Context(), gate.Wanted{Head: gate.Head{Application: "tenants/photon-prod", Job: "photon-prod/copyhold-gate", Namespaces: []string{"photon-prod"}, Platform: platform},
			Clusters: []gate.Cluster{{Cluster: "photon-prod/solar"}}})
		if err != nil {
			t.Error(err)
		}
		says(t, log.String(), "copyhold gate: NOT CHECKED: nobody knows", "not checked: Clusters: the API server has none of cluster.x-k8s.io/v1beta2, which is rendered, but has the kind as v1beta1\n",
			"looked at 0 Clusters nowhere", "!new clusters")
	}
	answers["GET /apis"] = strings.Replace(answers["GET /apis"], "cluster.x-k8s.io", "other.x-k8s.io", 2)
	if api, err = NewAPI(&restclient.Config{Host: s.URL}); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	g := Gate{API: api, Log: &log, Now: time.Now}
	if err := g.Run(t.Context(), gate.Wanted{Head: gate.Head{Application: "tenants/photon-prod", Job: "photon-prod/copyhold-gate", Namespaces: []string{"photon-prod"}}}); err != nil || written != 2 {
		t.Errorf("%v, %d Events", err, written)
	}
	says(t, log.String(), "copyhold gate: nothing to compare tenants/photon-prod with: the API server has no Clusters")
}

// What somebody has written into a live object does not write lines of the gate's, and no name is too long for an Event.
func TestGateOddObjects(t *testing.T) {
	wanted := wantedOf(t, repository(t, bigger), "tenants/dynamo-prod")
	w := worldOf(t, repository(t))
	w.change(t, "dynamo-prod/lunar", annotate("rollout.copyhold.dev/md-0", "v0:\nno machine of anybody is replaced\n"+strings.Repeat("é", 5000)))
	w.change(t, "dynamo-prod/lunar", func(o *unstructured.Unstructured) {
		o.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "copyhold"})
	})
	w.change(t, "dynamo-prod/lunar", func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(o.Object, "v1.33.5\x1b[2J", "spec", "topology", "version")
	})
	got := w.run(t, wanted)
	says(t, got, `              its rollout hash "v0:\nno machine of anybody is replaced\né"... is of another scheme than v1:`, `version "v1.33.5\x1b[2J" -> `, "!\nno machine", "!\x1b")

	long := strings.Repeat("solar.", 42) + "x"
	for _, name := range []string{"solar", long[:len(long)-2], long} {
		n := eventName(name, time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC), 10_000)
		if len(n) > 253 || !strings.HasPrefix(n, "solar.") || strings.Contains(n, "..") {
			t.Errorf("an Event of %s has the name %s", name, n)
		}
	}
}

// While a MachineDeployment takes another's place a pool has both, and the machines of both.
func TestGateTwoDeployments(t *testing.T) {
	w := worldOf(t, repository(t))
	for name, o := range w.copied().objects {
		if strings.HasPrefix(name, "MachineDeployment dynamo-prod/solar-") {
			o.SetName(o.GetName() + "-2")
			w.add(o)
		}
	}
	says(t, w.run(t, wantedOf(t, repository(t, bigger), "tenants/dynamo-prod")), "1 worker pool WILL ROLL (8 machines)\n")
}
