package render

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/gate"
	"copyhold.dev/copyhold/render/manifest"
)

// Argo CD runs an object with these annotations before a sync, and deletes that of the last sync first (its docs/user-guide/sync-waves.md
// and resource_hooks.md).
const (
	hookAnnotation       = "argocd.argoproj.io/hook"
	hookDeleteAnnotation = "argocd.argoproj.io/hook-delete-policy"
)

// The hooks of one sync, in order: who runs it, what it reads, the Job.
const (
	waveRoles  = "-3"
	waveWanted = "-2"
	waveJob    = "-1"
)

// chunkSize is how much of what is wanted a ConfigMap holds, in bytes. An API server takes 1 MiB.
const chunkSize = gate.MaxLine

// IsHook reports whether an object is part of a gate's run. The application that has the Clusters or ClusterClasses has its hooks.
func IsHook(o *manifest.Object) bool {
	_, hook := o.GetAnnotations()[hookAnnotation]
	return hook && o.GetLabels()["app.kubernetes.io/managed-by"] == managedBy
}

// hookMetadata is the head of an object that is made anew for each sync.
func hookMetadata(namespace, name, wave string) map[string]any {
	return map[string]any{
		"namespace": namespace,
		"name":      name,
		"labels":    labels(name, namespace),
		"annotations": map[string]any{
			hookAnnotation:       "PreSync",
			hookDeleteAnnotation: "BeforeHookCreation",
			syncWave:             wave,
			syncOptions:          "ServerSideApply=true", // a ConfigMap is more than kubectl's annotation may hold
		},
	}
}

// hookObjects are the Job of a gate and the ConfigMaps with what it compares. For the platform's gate, which must be able to run in a
// sync that brings its roles, the right to say that it could not look comes first.
func hookObjects(g *catalog.Gate, w gate.Wanted) ([]*manifest.Object, error) {
	text, err := w.Text()
	if err != nil {
		return nil, err
	}
	ns, name, _ := strings.Cut(w.Job, "/")
	var out []*manifest.Object
	account := gate.Account
	if w.Platform {
		account = gate.PlatformAccount
		out = append(out, serviceAccount(hookMetadata(ns, account, waveRoles)),
			role(hookMetadata(ns, account, waveRoles), eventRule),
			roleBinding(hookMetadata(ns, account, waveRoles), account, subject(ns, account)))
	}
	var sources []any
	for i, chunk := range gate.Split(text, chunkSize) {
		cm := fmt.Sprintf("%s-%d", name, i)
		out = append(out, object("v1", "ConfigMap", hookMetadata(ns, cm, waveWanted), map[string]any{"data": map[string]any{"wanted": chunk}}))
		sources = append(sources, map[string]any{"configMap": map[string]any{
			"name": cm, "items": []any{map[string]any{"key": "wanted", "path": fmt.Sprintf("%05d.jsonl", i)}},
		}})
	}
	return append(out, gateJob(g, ns, name, account, gate.Sum(text), sources)), nil
}

// gateJob runs the gate. One run is enough: a sync that is tried again runs it again.
func gateJob(g *catalog.Gate, ns, name, account, digest string, sources []any) *manifest.Object {
	pod := map[string]any{
		"serviceAccountName":           account,
		"automountServiceAccountToken": true, // the ServiceAccount's own setting is false
		"enableServiceLinks":           false,
		"restartPolicy":                "Never",
		"securityContext": map[string]any{
			"runAsNonRoot": true, "runAsUser": int64(999), "runAsGroup": int64(999), "seccompProfile": map[string]any{"type": "RuntimeDefault"},
		},
		"containers": []any{map[string]any{
			"name":                     "gate",
			"image":                    g.Image,
			"args":                     []any{"gate", "--wanted", "/wanted", "--digest", digest, "--deadline", fmt.Sprintf("%ds", g.RunSeconds())},
			"terminationMessagePolicy": "FallbackToLogsOnError",
			"resources": map[string]any{
				"requests": map[string]any{"cpu": "50m", "memory": "64Mi"},
				"limits":   map[string]any{"cpu": "1", "memory": "512Mi"},
			},
			"securityContext": map[string]any{
				"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
				"capabilities": map[string]any{"drop": []any{"ALL"}},
			},
			"volumeMounts": []any{map[string]any{"name": "wanted", "mountPath": "/wanted", "readOnly": true}},
		}},
		"volumes": []any{map[string]any{"name": "wanted", "projected": map[string]any{"sources": sources}}},
	}
	if len(g.ImagePullSecrets) > 0 {
		var list []any
		for _, s := range g.ImagePullSecrets {
			list = append(list, map[string]any{"name": s})
		}
		pod["imagePullSecrets"] = list
	}
	return object("batch/v1", "Job", hookMetadata(ns, name, waveJob), map[string]any{"spec": map[string]any{
		"activeDeadlineSeconds": g.Deadline(),
		"backoffLimit":          int64(0),
		"template":              map[string]any{"metadata": map[string]any{"labels": labels(name, ns)}, "spec": pod},
	}})
}

// Rules of the roles: what the gate does, and nothing more.
var (
	clusterRule = rule("cluster.x-k8s.io", []string{"clusters", "machinedeployments"}, "list")
	eventRule   = rule("events.k8s.io", []string{"events"}, "create")
)

// gateRoles are, for each tenant, the ServiceAccount of its gate and a Role in its namespace, which the platform's gate has too; and
// where classes live, a Role to read them.
func gateRoles(c *catalog.Catalog, places []string, classes []gate.Class) []*manifest.Object {
	var out []*manifest.Object
	var platform, readers []any
	if c.FansOut() {
		platform = []any{subject(c.Gate.Namespace, gate.PlatformAccount)}
	}
	for _, ns := range places {
		own := subject(ns, gate.Account)
		readers = append(readers, own)
		out = append(out, serviceAccount(platformMetadata(ns, gate.Account, ns)),
			role(platformMetadata(ns, gate.Account, ns), clusterRule, eventRule),
			roleBinding(platformMetadata(ns, gate.Account, ns), gate.Account, append([]any{own}, platform...)...))
	}
	readers = append(readers, platform...)
	if len(readers) == 0 {
		return out
	}
	byPlace := map[string]map[string][]string{} // namespace, then group: plural names
	for _, class := range classes {
		ns, _, _ := strings.Cut(class.Class, "/")
		if byPlace[ns] == nil {
			byPlace[ns] = map[string][]string{"cluster.x-k8s.io": {"clusterclasses"}}
		}
		for _, t := range class.Templates {
			plural, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(t.APIVersion, t.Kind))
			byPlace[ns][plural.Group] = append(byPlace[ns][plural.Group], plural.Resource)
		}
	}
	for _, ns := range catalog.Sorted(byPlace) {
		var rules []any
		for _, group := range catalog.Sorted(byPlace[ns]) {
			rules = append(rules, rule(group, byPlace[ns][group], "get"))
		}
		out = append(out, role(platformMetadata(ns, gate.ClassRole, gate.Account), rules...),
			roleBinding(platformMetadata(ns, gate.ClassRole, gate.Account), gate.ClassRole, readers...))
	}
	return out
}

func rule(group string, resources []string, verb string) any {
	return map[string]any{"apiGroups": []any{group}, "resources": set(resources), "verbs": []any{verb}}
}

func subject(ns, name string) any {
	return map[string]any{"kind": "ServiceAccount", "namespace": ns, "name": name}
}

func serviceAccount(metadata map[string]any) *manifest.Object {
	return object("v1", "ServiceAccount", metadata, map[string]any{"automountServiceAccountToken": false})
}

func role(metadata map[string]any, rules ...any) *manifest.Object {
	return object("rbac.authorization.k8s.io/v1", "Role", metadata, map[string]any{"rules": rules})
}

func roleBinding(metadata map[string]any, name string, subjects ...any) *manifest.Object {
	return object("rbac.authorization.k8s.io/v1", "RoleBinding", metadata, map[string]any{
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
		"subjects": subjects,
	})
}
