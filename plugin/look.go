package plugin

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/gate"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// pageSize is how many objects are asked for at a time.
const pageSize = 250

// look reads what runs.
type look struct {
	*Gate
	ctx    context.Context
	wanted gate.Wanted
	live   gate.Live

	classes map[string]*topology.Class // those that run and change, as Cluster API's engine takes them
	schemas *topology.Schemas
}

func (l *look) all() (gate.Live, error) {
	l.live = gate.Live{Classes: map[string]gate.LiveClass{}}
	l.classes, l.schemas = map[string]*topology.Class{}, topology.NewSchemas(l.wanted.Definition)
	for _, c := range l.wanted.Classes {
		class, err := l.class(c)
		if err != nil {
			return l.live, err
		}
		l.live.Classes[c.Class] = class
	}
	return l.live, l.clusters()
}

// clusters reads the Clusters: those of the whole management cluster where the platform's gate may, or else namespace by namespace.
func (l *look) clusters() error {
	take := func(o *unstructured.Unstructured) {
		c := gate.ClusterOf(o)
		c.Made = l.made(o, c)
		l.live.Add(c)
	}
	if l.wanted.Platform {
		err := l.list("Cluster", "", take)
		switch {
		case err == nil:
			l.live.Reach = "in all namespaces"
			return nil
		case absent(err) || apierrors.IsNotFound(err):
			l.live.NoAPI = true
			return nil
		case !apierrors.IsForbidden(err):
			return l.failed(err)
		}
	}
	seen := 0
	for _, ns := range l.wanted.Namespaces {
		err := l.list("Cluster", ns, take)
		switch {
		case err == nil:
			seen++
		case absent(err) || apierrors.IsNotFound(err):
			l.live.NoAPI = true
			return nil
		case apierrors.IsForbidden(err):
			l.hide(ns)
			l.gap("no permission to list clusters.cluster.x-k8s.io in namespace "+ns, grant(ns, "list", "clusters.cluster.x-k8s.io"))
		default:
			return l.failed(err)
		}
	}
	l.live.Reach = "in " + strings.Join(l.wanted.Namespaces, ", ")
	if l.wanted.Platform {
		l.live.Reach = fmt.Sprintf("in %d of %d namespaces", seen, len(l.wanted.Namespaces))
	}
	return nil
}

// failed is what came of a call that was not answered as it should be.
func (l *look) failed(err error) error {
	if apierrors.IsUnauthorized(err) {
		return fmt.Errorf("the API server does not know who asks: %w", err)
	}
	return err
}

// grant says how somebody gets a permission.
func grant(ns, verb, resource string) string {
	return fmt.Sprintf("sync the platform application, which brings the roles of the gate; or by hand: kubectl create role NAME -n %s --verb=%s --resource=%s", ns, verb, resource)
}

// list reads all objects of one of Cluster API's kinds, page by page: a management cluster has thousands.
func (l *look) list(kind, ns string, take func(*unstructured.Unstructured)) error {
	next := ""
	for {
		page := &unstructured.UnstructuredList{}
		page.SetGroupVersionKind(clusterv1.GroupVersion.WithKind(kind + "List"))
		err := l.ask(l.ctx, func(ctx context.Context) error {
			return l.API.List(ctx, page, client.InNamespace(ns), client.Limit(pageSize), client.Continue(next))
		})
		if err != nil {
			return err
		}
		for i := range page.Items {
			take(&page.Items[i])
		}
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}

// class reads a ClusterClass and the templates that it names.
func (l *look) class(want gate.Class) (gate.LiveClass, error) {
	ns, name, _ := strings.Cut(want.Class, "/")
	class, why, err := l.get(clusterv1.GroupVersion.WithKind("ClusterClass"), ns, name)
	switch {
	case err != nil:
		return gate.LiveClass{}, err
	case why != "":
		return gate.LiveClass{Unknown: why}, nil
	case class == nil:
		return gate.LiveClass{Missing: true}, nil
	}
	objects := []*manifest.Object{class}
	for _, r := range catalog.TemplateRefs(class) {
		t, why, err := l.get(schema.FromAPIVersionAndKind(r.APIVersion, r.Kind), ns, r.Name)
		if err != nil {
			return gate.LiveClass{}, err
		}
		if why != "" {
			return gate.LiveClass{Unknown: why}, nil
		}
		if t != nil {
			objects = append(objects, t)
		}
	}
	parts, err := catalog.ClassParts(objects, ns, name)
	if err != nil {
		return gate.LiveClass{Unknown: fmt.Sprintf("it does not read: %v", err)}, nil
	}
	if l.wanted.Platform {
		// One that the engine does not take is one of which more is unknown.
		if class, problems, err := topology.NewClass(objects, topology.Key{Namespace: ns, Name: name}); err == nil && len(problems) == 0 {
			class.Stored(l.schemas)
			l.classes[want.Class] = class
		}
	}
	return gate.LiveClass{Parts: parts}, nil
}

// made are the rollout hashes of a Cluster by the class that runs. Its annotation says what its application wanted at its last sync,
// which may have come before the class; this says what its machines are made by. It is worked out where the class changes.
func (l *look) made(o *unstructured.Unstructured, c *gate.LiveCluster) map[string]string {
	class := l.classes[c.Class]
	if class == nil || !l.live.Changes(&l.wanted, c.Class) {
		return nil
	}
	pools, problems, err := class.Pools(manifest.Bare(o))
	if err != nil || len(problems) > 0 {
		return nil
	}
	out := map[string]string{}
	for name, pool := range pools {
		if hash, err := pool.Hash(l.schemas); err == nil && hash != "" {
			out[name] = hash
		}
	}
	return out
}

// get reads one object. It is nil when there is none, and why says when it could not be looked at.
func (l *look) get(gvk schema.GroupVersionKind, ns, name string) (o *manifest.Object, why string, err error) {
	o = &manifest.Object{}
	o.SetGroupVersionKind(gvk)
	err = l.ask(l.ctx, func(ctx context.Context) error {
		return l.API.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, o)
	})
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	resource := plural.GroupResource().String()
	switch {
	case err == nil:
		return o, "", nil
	case apierrors.IsNotFound(err):
		return nil, "", nil
	case absent(err):
		return nil, fmt.Sprintf("the API server has no %s of %s", gvk.Kind, gvk.GroupVersion()), nil
	case apierrors.IsForbidden(err):
		why = fmt.Sprintf("no permission to get %s in namespace %s", resource, ns)
		l.gap(why, grant(ns, "get", resource))
		return nil, why, nil
	}
	return nil, "", l.failed(err)
}

// machines counts those of the Clusters that a report speaks of.
func (l *look) machines(r gate.Report) error {
	var names []string
	for _, o := range r.Outcomes {
		names = append(names, o.Cluster.String())
	}
	for _, ns := range gate.Namespaces(names) {
		err := l.list("MachineDeployment", ns, l.live.Count)
		switch {
		case apierrors.IsForbidden(err):
			l.gap("the number of machines: no permission to list machinedeployments.cluster.x-k8s.io in namespace "+ns, grant(ns, "list", "machinedeployments.cluster.x-k8s.io"))
		case err != nil:
			return l.failed(err)
		}
	}
	return nil
}
