// Package request reads what tenants write: short files that ask for a cluster or a subnet.
// It checks what can be known from the file alone; what the platform offers is the catalog's business.
//
// Parse reads one file. The types below are the format; docs/requests.md explains it to a tenant.
package request

import (
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/strict"
)

// APIVersion is the version of both request kinds.
const APIVersion = "copyhold.dev/v1alpha1"

// The kinds a tenant may write.
const (
	KindCluster = "ClusterRequest"
	KindSubnet  = "SubnetRequest"
)

// Requests are the requests of one or more files, in the order they were read.
type Requests struct {
	Clusters []*Cluster
	Subnets  []*Subnet
}

// Meta is the head of every request, and where it stands.
type Meta struct {
	Namespace string // the folder under tenants/
	Name      string
	doc       strict.Document
}

// File is the repository path of the file the request stands in.
func (m Meta) File() string { return m.doc.File }

// At is the place of the value under a path of the request, or of the deepest part of the path that is written.
func (m Meta) At(path ...string) diag.Pos { return m.doc.At(path...) }

// KeyAt is the place of the last key of the path, or of the deepest part of the path that is written.
func (m Meta) KeyAt(path ...string) diag.Pos { return m.doc.KeyAt(path...) }

// Has reports whether the tenant wrote the path.
func (m Meta) Has(path ...string) bool { return m.doc.Has(path...) }

// Text is the scalar under a path as the tenant wrote it, or "".
func (m Meta) Text(path ...string) string { return m.doc.Text(path...) }

// Value is what the tenant wrote under a path, as plain maps, lists and scalars; nil when that is nothing.
func (m Meta) Value(path ...string) any { return strict.Within(m.doc.Value(), path) }

// String is namespace/name.
func (m Meta) String() string { return m.Namespace + "/" + m.Name }

// Cluster is a request for a tenant cluster.
type Cluster struct {
	Meta
	Spec ClusterSpec
}

// ClusterSpec is what a tenant may say of a cluster. Tier and Version are needed; the tier's class may need more.
type ClusterSpec struct {
	Tier           string          `json:"tier"`
	Version        string          `json:"version"`                  // of Kubernetes, "v1.34.1"
	Subnet         string          `json:"subnet,omitempty"`         // name of a SubnetRequest of this namespace, or of a subnet made elsewhere
	Address        string          `json:"address,omitempty"`        // pins the control-plane address
	ServerAddress  string          `json:"serverAddress,omitempty"`  // pins the in-subnet address that workers join by
	PublicNames    []string        `json:"publicNames,omitempty"`    // further addresses and names in the API server's certificate; a set
	ControlPlane   ControlPlane    `json:"controlPlane,omitempty"`   //
	Workers        map[string]Pool `json:"workers,omitempty"`        // worker pools by name; none written means one pool md-0 with one replica
	ClusterNetwork *ClusterNetwork `json:"clusterNetwork,omitempty"` //
	Variables      map[string]any  `json:"variables,omitempty"`      // any further ClusterClass variable, by name
}

// ControlPlane sizes and places the hosted control plane.
type ControlPlane struct {
	Replicas  *int32    `json:"replicas,omitempty"`  // pods of the control plane
	DataStore string    `json:"dataStore,omitempty"` // a Kamaji DataStore
	Resources Resources `json:"resources,omitempty"` //
}

// Resources are the requests and limits of the control plane's containers.
type Resources struct {
	APIServer         map[string]any `json:"apiServer,omitempty"`
	ControllerManager map[string]any `json:"controllerManager,omitempty"`
	Scheduler         map[string]any `json:"scheduler,omitempty"`
}

// Pool is one worker pool: a MachineDeployment of the cluster's topology.
type Pool struct {
	Class         string            `json:"class,omitempty"`         // worker class; the tier's default when empty
	Replicas      *int32            `json:"replicas,omitempty"`      // 1 when neither replicas nor min and max are given
	Min           *int32            `json:"min,omitempty"`           // with max: bounds for the cluster autoscaler, instead of replicas
	Max           *int32            `json:"max,omitempty"`           //
	Size          string            `json:"size,omitempty"`          // machine size; the class's default when empty
	FailureDomain string            `json:"failureDomain,omitempty"` //
	DeferUpgrade  bool              `json:"deferUpgrade,omitempty"`  // keep this pool on its version while the cluster is upgraded
	Labels        map[string]string `json:"labels,omitempty"`        // of the machines and, where Cluster API syncs them, the nodes
}

// ClusterNetwork are the cluster's own ranges, as CIDRs.
type ClusterNetwork struct {
	Pods          []string `json:"pods,omitempty"`
	Services      []string `json:"services,omitempty"`
	ServiceDomain string   `json:"serviceDomain,omitempty"`
}

// Subnet is a request for a subnet of the tenant's network.
type Subnet struct {
	Meta
	Spec SubnetSpec
}

// SubnetSpec is what a tenant may say of a subnet. CIDR is needed.
type SubnetSpec struct {
	CIDR            string         `json:"cidr"`                      // "10.100.0.0/24"
	Gateway         string         `json:"gateway,omitempty"`         //
	ServerAddresses string         `json:"serverAddresses,omitempty"` // range the clusters' serverAddress is taken from: first-last or a CIDR
	Fields          map[string]any `json:"fields,omitempty"`          // any further field of the SubnetClaim's spec, by name
}

// head is what every document of a tenant's file starts with.
type head[S any] struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       S        `json:"spec"`
}

type metadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}
