package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// player does what the providers' controllers do, as far as Cluster API sees it: a control plane that reports the version it is asked
// for, infrastructure and machines that become ready, a Node for each machine. Each tenant cluster's API server is the one API server
// there is. It also counts what quotas count, for there is no controller manager.
type player struct {
	c          dynamic.Interface
	kubeconfig []byte
	authority  []byte
	listers    map[schema.GroupVersionResource]cache.GenericLister

	mu   sync.Mutex
	held map[string]bool // namespaces whose control planes stay on their version
	errs []error

	cancel context.CancelFunc
	done   chan struct{}
}

func startPlayer(ctx context.Context, p *plane) (*player, error) {
	config := rest.CopyConfig(p.config)
	config.WarningHandlerWithContext = rest.NoWarnings{}
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	a := &player{c: c, kubeconfig: p.kubeconfigFor(adminToken), authority: p.authority, held: map[string]bool{}, cancel: cancel, done: make(chan struct{}),
		listers: map[schema.GroupVersionResource]cache.GenericLister{}}
	f := dynamicinformer.NewDynamicSharedInformerFactory(c, 0)
	for _, r := range []schema.GroupVersionResource{kamajiControlPlanes, kairosConfigs, nodes, quotas, secrets} {
		a.listers[r] = f.ForResource(r).Lister()
	}
	for _, p := range providers {
		if !p.unpublished || providerFolder() != "" {
			a.listers[p.clusters], a.listers[p.machines] = f.ForResource(p.clusters).Lister(), f.ForResource(p.machines).Lister()
		}
	}
	f.Start(ctx.Done())
	f.WaitForCacheSync(ctx.Done())
	go func() {
		defer close(a.done)
		for ctx.Err() == nil {
			a.turn(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return a, nil
}

func (a *player) stop() {
	a.cancel()
	<-a.done
}

// hold keeps the control planes of a namespace on the version they have.
func (a *player) hold(namespace string, on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held[namespace] = on
}

func (a *player) isHeld(namespace string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held[namespace]
}

func (a *player) turn(ctx context.Context) {
	plays := map[schema.GroupVersionResource]func(context.Context, *unstructured.Unstructured) error{
		kamajiControlPlanes: a.controlPlane, kairosConfigs: a.bootstrap, quotas: a.quota,
	}
	for _, p := range providers {
		if a.listers[p.clusters] != nil {
			plays[p.clusters] = func(ctx context.Context, o *unstructured.Unstructured) error { return a.cluster(ctx, p, o) }
			plays[p.machines] = func(ctx context.Context, o *unstructured.Unstructured) error { return a.machine(ctx, p, o) }
		}
	}
	for r, play := range plays {
		objects, err := a.listers[r].List(labels.Everything())
		for _, o := range objects {
			o := o.(*unstructured.Unstructured)
			if err != nil || o.GetDeletionTimestamp() != nil {
				continue
			}
			if err := play(ctx, o); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
				a.mu.Lock()
				a.errs = append(a.errs, fmt.Errorf("%s %s/%s: %w", o.GetKind(), o.GetNamespace(), o.GetName(), err))
				a.mu.Unlock()
			}
		}
	}
}

const clusterLabel = "cluster.x-k8s.io/cluster-name"

func (a *player) controlPlane(ctx context.Context, o *unstructured.Unstructured) error {
	name := o.GetLabels()[clusterLabel]
	if name == "" {
		return nil // Cluster API has not adopted it yet
	}
	if err := a.secret(ctx, o.GetNamespace(), name, name+"-ca", map[string][]byte{"tls.crt": a.authority, "tls.key": []byte("not needed")}); err != nil {
		return err
	}
	if err := a.secret(ctx, o.GetNamespace(), name, name+"-kubeconfig", map[string][]byte{"value": a.kubeconfig}); err != nil {
		return err
	}
	version, replicas := text(o, "spec", "version"), field(o, "spec", "replicas")
	if was := text(o, "status", "version"); was != "" && a.isHeld(o.GetNamespace()) {
		version = was
	}
	return a.status(ctx, kamajiControlPlanes, o, map[string]any{
		"ready": true, "externalManagedControlPlane": true, "initialization": map[string]any{"controlPlaneInitialized": true}, "version": version,
		"replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas, "upToDateReplicas": replicas,
	})
}

// provider is one kind of infrastructure.
type provider struct {
	clusters, machines schema.GroupVersionResource
	scheme             string         // of providerIDs
	status             map[string]any // of what is there, as its contract says it
	unpublished        bool           // no Go module has its definitions
}

var (
	readyStatus       = map[string]any{"ready": true}                                         // contract v1beta1
	provisionedStatus = map[string]any{"initialization": map[string]any{"provisioned": true}} // contract v1beta2
)

var providers = []provider{
	{kubevirtClusters, kubevirtMachines, "kubevirt", readyStatus, false},
	{infrastructure("v1alpha2", "proxmoxclusters"), infrastructure("v1alpha2", "proxmoxmachines"), "proxmox", provisionedStatus, false},
	{infrastructure("v1beta1", "nutanixclusters"), infrastructure("v1beta1", "nutanixmachines"), "nutanix", readyStatus, false},
	{infrastructure("v1beta1", "packetclusters"), infrastructure("v1beta1", "packetmachines"), "equinixmetal", readyStatus, false},
	{infrastructure("v1alpha1", "metalstackclusters"), infrastructure("v1alpha1", "metalstackmachines"), "metal",
		map[string]any{"ready": true, "initialization": map[string]any{"provisioned": true}}, true},
	{infrastructure("v1beta1", "hetznerclusters"), infrastructure("v1beta1", "hcloudmachines"), "hcloud", readyStatus, true},
}

func infrastructure(version, plural string) schema.GroupVersionResource {
	return resource("infrastructure.cluster.x-k8s.io/"+version, plural)
}

func (a *player) cluster(ctx context.Context, p provider, o *unstructured.Unstructured) error {
	if text(o, "spec", "controlPlaneEndpoint", "host") == "" {
		return a.patch(ctx, p.clusters, o, map[string]any{"spec": map[string]any{"controlPlaneEndpoint": map[string]any{"host": "127.0.0.1", "port": 6443}}})
	}
	return a.status(ctx, p.clusters, o, p.status)
}

func (a *player) machine(ctx context.Context, p provider, o *unstructured.Unstructured) error {
	id := p.scheme + "://" + string(o.GetUID())
	if text(o, "spec", "providerID") == "" {
		return a.patch(ctx, p.machines, o, map[string]any{"spec": map[string]any{"providerID": id}})
	}
	if err := a.status(ctx, p.machines, o, p.status); err != nil {
		return err
	}
	name := o.GetNamespace() + "-" + o.GetName()
	node, err := a.listers[nodes].Get(name)
	if apierrors.IsNotFound(err) {
		_, err = a.c.Resource(nodes).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name}, "spec": map[string]any{"providerID": id},
		}}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	n := node.(*unstructured.Unstructured)
	if condition(n, "Ready") == "True" {
		return nil
	}
	now := metav1.Now().UTC().Format(time.RFC3339)
	var conditions []any
	for kind, status := range map[string]string{"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"} {
		conditions = append(conditions, map[string]any{"type": kind, "status": status, "reason": "Played", "lastTransitionTime": now, "lastHeartbeatTime": now})
	}
	return a.patch(ctx, nodes, n, map[string]any{"status": map[string]any{"conditions": conditions}}, "status")
}

func (a *player) bootstrap(ctx context.Context, o *unstructured.Unstructured) error {
	if err := a.secret(ctx, o.GetNamespace(), o.GetLabels()[clusterLabel], o.GetName(), map[string][]byte{"value": []byte("played")}); err != nil {
		return err
	}
	return a.status(ctx, kairosConfigs, o, map[string]any{"dataSecretName": o.GetName(), "initialization": map[string]any{"dataSecretCreated": true}})
}

func (a *player) quota(ctx context.Context, o *unstructured.Unstructured) error {
	if field(o, "status", "hard") != nil {
		return nil
	}
	used := map[string]any{}
	for k := range field(o, "spec", "hard").(map[string]any) {
		used[k] = "0"
	}
	return a.status(ctx, quotas, o, map[string]any{"hard": field(o, "spec", "hard"), "used": used})
}

func (a *player) secret(ctx context.Context, namespace, cluster, name string, data map[string][]byte) error {
	if _, err := a.listers[secrets].ByNamespace(namespace).Get(name); err == nil {
		return nil
	}
	values := map[string]any{}
	for k, v := range data {
		values[k] = string(v)
	}
	_, err := a.c.Resource(secrets).Namespace(namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret", "stringData": values,
		"metadata": map[string]any{"name": name, "labels": map[string]any{clusterLabel: cluster}},
	}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// status writes the fields of a status that are not as wanted.
func (a *player) status(ctx context.Context, r schema.GroupVersionResource, o *unstructured.Unstructured, want map[string]any) error {
	is, _ := field(o, "status").(map[string]any)
	for k, v := range want {
		if !equal(is[k], v) {
			return a.patch(ctx, r, o, map[string]any{"status": want}, "status")
		}
	}
	return nil
}

func equal(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

func (a *player) patch(ctx context.Context, r schema.GroupVersionResource, o *unstructured.Unstructured, change map[string]any, sub ...string) error {
	data, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = a.c.Resource(r).Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, data, metav1.PatchOptions{FieldManager: "player"}, sub...)
	return err
}
