package plugin

import (
	"context"
	"fmt"
	"slices"
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
	if l.wanted.Platform {
		err := l.clustersOf("")
		switch {
		case err == nil:
			l.live.Reach = "in all namespaces"
			return nil
		case noSuchKind(err):
			return l.noClusters()
		case !apierrors.IsForbidden(err):
			return l.failed(err)
		}
		l.elsewhere(err)
	}
	for _, ns := range l.wanted.Namespaces {
		err := l.clustersOf(ns)
		switch {
		case err == nil:
		case noSuchKind(err):
			return l.noClusters()
		case apierrors.IsForbidden(err):
			l.hide(ns)
			l.gap(refusal(l.wanted, ns, "list", "clusters.cluster.x-k8s.io", err))
		default:
			return l.failed(err)
		}
	}
	l.live.Reach = "in " + strings.Join(l.wanted.Namespaces, ", ")
	if l.wanted.Platform {
		l.live.Reach = fmt.Sprintf("in %d of %d namespaces", l.live.Lists, len(l.wanted.Namespaces))
	}
	return nil
}

// clustersOf reads the Clusters of a namespace, or of all.
func (l *look) clustersOf(ns string) error {
	clusters, err := list(l, "Cluster", ns, func(o *unstructured.Unstructured) *gate.LiveCluster {
		c := gate.ClusterOf(o)
		c.Made = l.made(o, c)
		return c
	})
	if err != nil {
		return err
	}
	l.live.Lists++
	for _, c := range clusters {
		l.live.Add(c)
	}
	return nil
}

// elsewhere notes that a class that this sync changes may have Clusters where nobody looks.
func (l *look) elsewhere(err error) {
	for name, c := range l.live.Classes {
		if c.Unknown != "" || !c.Missing && l.live.Changes(&l.wanted, name) {
			l.gap(gate.Gap{
				What: "Clusters outside of the namespaces of this repository, which may be of a class that changes",
				Says: err.Error(),
				Hint: fmt.Sprintf("a ClusterRole of your own that lets ServiceAccount %s list clusters.cluster.x-k8s.io shows them", account(l.wanted)),
			})
			return
		}
	}
}

// noClusters is for an API server without the kind that is rendered. One that has it in another version has Clusters that nobody sees.
func (l *look) noClusters() error {
	mappings, err := ask(l.ctx, l.Gate, func(context.Context) ([]*meta.RESTMapping, error) {
		return l.API.RESTMapper().RESTMappings(schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: "Cluster"})
	})
	if err != nil && !noSuchKind(err) {
		return l.failed(err)
	}
	var versions []string
	for _, m := range mappings {
		if v := m.GroupVersionKind.Version; v != clusterv1.GroupVersion.Version {
			versions = append(versions, v)
		}
	}
	if len(versions) == 0 {
		l.live.NoAPI, l.live.Gaps = true, nil // without Clusters it does not matter which classes there are
		return nil
	}
	for _, ns := range l.wanted.Namespaces {
		l.hide(ns)
	}
	l.live.Reach = "nowhere"
	l.gap(gate.Gap{
		What: fmt.Sprintf("Clusters: the API server has none of %s, which is rendered, but has the kind as %s", clusterv1.GroupVersion, strings.Join(versions, ", ")),
		Hint: "upgrade Cluster API in the management cluster; this sync cannot bring a Cluster there",
	})
	return nil
}

// failed is what came of a call that was not answered as it should be.
func (l *look) failed(err error) error {
	if apierrors.IsUnauthorized(err) {
		return fmt.Errorf("%s does not know who asks: %w", l.server(), err)
	}
	return err
}

// hide notes that a namespace's Clusters could not be read.
func (l *look) hide(ns string) {
	if l.live.Unseen == nil {
		l.live.Unseen = map[string]bool{}
	}
	l.live.Unseen[ns] = true
}

// gap notes something that could not be looked at, once.
func (l *look) gap(g gate.Gap) {
	if !slices.ContainsFunc(l.live.Gaps, func(o gate.Gap) bool { return o.What == g.What }) {
		l.live.Gaps = append(l.live.Gaps, g)
	}
}

// list reads all objects of one of Cluster API's kinds, page by page: a management cluster has thousands. Of each page only what is read
// off its objects is kept. Pages are of one moment, which an API server forgets after minutes; then the list is begun anew.
func list[T any](l *look, kind, ns string, read func(*unstructured.Unstructured) T) ([]T, error) {
	const most = 3
	for began := 1; ; began++ {
		var out []T
		next, err := "", error(nil)
		for first := true; first || next != ""; first = false {
			var page *unstructured.UnstructuredList
			page, err = ask(l.ctx, l.Gate, func(ctx context.Context) (*unstructured.UnstructuredList, error) {
				page := &unstructured.UnstructuredList{}
				page.SetGroupVersionKind(clusterv1.GroupVersion.WithKind(kind + "List"))
				return page, l.API.List(ctx, page, client.InNamespace(ns), client.Limit(pageSize), client.Continue(next))
			})
			if err != nil {
				break
			}
			for i := range page.Items {
				out = append(out, read(&page.Items[i]))
			}
			next = page.GetContinue()
		}
		switch {
		case err == nil:
			return out, nil
		case !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err):
			return nil, err
		case began == most:
			return nil, fmt.Errorf("%s forgot the list of %ss %d times before it was read: %w", l.server(), kind, most, err)
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
		why := fmt.Sprintf("it does not read: %v", err)
		l.gap(gate.Gap{What: "ClusterClass " + want.Class + ": " + why})
		return gate.LiveClass{Unknown: why}, nil
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
	o, err = ask(l.ctx, l.Gate, func(ctx context.Context) (*manifest.Object, error) {
		o := &manifest.Object{}
		o.SetGroupVersionKind(gvk)
		return o, l.API.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, o)
	})
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	switch {
	case err == nil:
		return o, "", nil
	case apierrors.IsNotFound(err):
		return nil, "", nil
	case absent(err):
		g := gate.Gap{What: fmt.Sprintf("the API server has no %s of %s", gvk.Kind, gvk.GroupVersion())}
		l.gap(g)
		return nil, g.What, nil
	case apierrors.IsForbidden(err):
		g := refusal(l.wanted, ns, "get", plural.GroupResource().String(), err)
		l.gap(g)
		return nil, g.What, nil
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
		deployments, err := list(l, "MachineDeployment", ns, gate.DeploymentOf)
		switch {
		case apierrors.IsForbidden(err):
			g := refusal(l.wanted, ns, "list", "machinedeployments.cluster.x-k8s.io", err)
			g.What = "the number of machines: " + g.What
			l.gap(g)
		case err != nil:
			return l.failed(err)
		}
		for _, d := range deployments {
			l.live.Count(d)
		}
	}
	return nil
}
