package gate

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/topology"
)

// ManagedByLabel is how a Cluster says that copyhold rendered it.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "copyhold"
)

// Live is what runs, as far as somebody could look.
type Live struct {
	NoAPI    bool                    // the API server has no Clusters of the version that is rendered
	Clusters map[string]*LiveCluster // by namespace/name
	Classes  map[string]LiveClass    // by namespace/name; those that were looked for
	Unseen   map[string]bool         // namespaces of which the Clusters could not be read
	Lists    int                     // how many lists of Clusters were read, of a namespace or of all
	Gaps     []Gap                   // what could not be looked at
	Reach    string                  // where Clusters were looked for, for people
}

// Gap is something that could not be looked at.
type Gap struct {
	What string // what, and why not
	Says string // what the API server says of it
	Hint string // the way out
}

// LiveCluster is a Cluster that runs.
type LiveCluster struct {
	Namespace, Name, UID string
	Ours                 bool // it carries our label
	Deleting, Paused     bool
	Class, Version       string
	Pools                []string             // worker pools of its topology, or else those it has hashes of
	Hashes               map[string]string    // rollout hashes, by worker pool
	Parts                map[string]string    // see TopologyParts; nil when they do not read
	Machines             map[string]*Machines // by worker pool; what is not known is not there
	Made                 map[string]string    // the rollout hashes that the class that runs gives its worker pools, where that was worked out
}

// Machines are those of a MachineDeployment, or of all that a worker pool has.
type Machines struct {
	Count   int64
	Rolling bool // some of them are being replaced already
}

// Deployment is a MachineDeployment.
type Deployment struct {
	Machines
	Namespace, Cluster, Name string
	Pool                     string // in its Cluster's topology; empty when no topology made it
}

// LiveClass is a ClusterClass that runs.
type LiveClass struct {
	Missing bool
	Unknown string            // why nothing is known of it
	Parts   map[string]string // see catalog.ClassParts
}

// ClusterOf reads what the gate needs off a Cluster.
func ClusterOf(o *unstructured.Unstructured) *LiveCluster {
	c := &LiveCluster{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()),
		Ours:     o.GetLabels()[ManagedByLabel] == managedBy,
		Deleting: o.GetDeletionTimestamp() != nil,
		Hashes:   map[string]string{}, Machines: map[string]*Machines{},
	}
	paused, _, _ := unstructured.NestedBool(o.Object, "spec", "paused")
	_, annotated := o.GetAnnotations()[clusterv1.PausedAnnotation]
	c.Paused = paused || annotated
	for key, hash := range o.GetAnnotations() {
		if pool, ok := strings.CutPrefix(key, topology.AnnotationPrefix); ok {
			c.Hashes[pool] = hash
		}
	}
	c.Version, _, _ = unstructured.NestedString(o.Object, "spec", "topology", "version")
	name, _, _ := unstructured.NestedString(o.Object, "spec", "topology", "classRef", "name")
	ns, _, _ := unstructured.NestedString(o.Object, "spec", "topology", "classRef", "namespace")
	if ns == "" {
		ns = c.Namespace
	}
	if name != "" {
		c.Class = ns + "/" + name
	}
	if _, managed := spec(o)["topology"]; !managed {
		c.Pools = slices.Sorted(maps.Keys(c.Hashes))
		return c
	}
	mds, _, _ := unstructured.NestedSlice(o.Object, "spec", "topology", "workers", "machineDeployments")
	for _, md := range mds {
		if m, ok := md.(map[string]any); ok {
			if name, ok := m["name"].(string); ok {
				c.Pools = append(c.Pools, name)
			}
		}
	}
	if _, written, _ := unstructured.NestedMap(o.Object, "spec", "topology"); !written { // its MachineDeployments are objects of their own
		c.Pools = catalog.Sorted(c.Hashes)
	}
	slices.Sort(c.Pools)
	if parts, err := TopologyParts(o.Object); err == nil {
		c.Parts = parts
	}
	return c
}

func spec(o *unstructured.Unstructured) map[string]any {
	m, _ := o.Object["spec"].(map[string]any)
	return m
}

// DeploymentOf reads what the gate needs off a MachineDeployment.
func DeploymentOf(o *unstructured.Unstructured) Deployment {
	d := Deployment{
		Namespace: o.GetNamespace(), Name: o.GetName(),
		Cluster: o.GetLabels()[clusterv1.ClusterNameLabel],
		Pool:    o.GetLabels()[clusterv1.ClusterTopologyMachineDeploymentNameLabel],
	}
	want, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	have, is, _ := unstructured.NestedInt64(o.Object, "status", "replicas")
	if d.Count = want; is {
		d.Count = have
	}
	if fresh, known, _ := unstructured.NestedInt64(o.Object, "status", "upToDateReplicas"); known {
		d.Rolling = fresh < d.Count
	}
	return d
}

// Count takes in a MachineDeployment of one of the Clusters. One that no topology made has the Cluster's name before the pool's. While
// one takes another's place a pool has two.
func (l *Live) Count(d Deployment) {
	c := l.Clusters[d.Namespace+"/"+d.Cluster]
	if c == nil {
		return
	}
	if d.Pool == "" && c.Class == "" {
		d.Pool, _ = strings.CutPrefix(d.Name, c.Name+"-")
	}
	if d.Pool == "" {
		return
	}
	m := c.Machines[d.Pool]
	if m == nil {
		m = &Machines{}
		c.Machines[d.Pool] = m
	}
	m.Count += d.Count
	m.Rolling = m.Rolling || d.Rolling
}

// Changes reports whether the class that runs under a name is another than the wanted one of that name.
func (l *Live) Changes(w *Wanted, name string) bool {
	parts, known := l.differs(w.class(name))
	return known && len(parts) > 0
}

// Add takes in a Cluster.
func (l *Live) Add(c *LiveCluster) {
	if l.Clusters == nil {
		l.Clusters = map[string]*LiveCluster{}
	}
	l.Clusters[c.Namespace+"/"+c.Name] = c
}

// differs says in which parts the class that runs is another than the vendored one. It is not known when nobody could look; parts of
// one that is missing are all of them.
func (l *Live) differs(vendored *Class) (parts []string, known bool) {
	if vendored == nil {
		return nil, false
	}
	c, looked := l.Classes[vendored.Class]
	if !looked || c.Unknown != "" {
		return nil, false
	}
	if c.Missing {
		return slices.Sorted(maps.Keys(vendored.Parts)), true
	}
	return differing(vendored.Parts, c.Parts), true
}
