// Package catalog reads what the platform team offers: tiers and the ClusterClasses behind them, versions, address pools, subnets.
// It holds no rule about a single request; render puts the two together.
//
// Load reads catalog.yaml; Catalog.ClassObjects renders a source of ClusterClasses when somebody asks for one of its tiers.
package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/strict"
)

// APIVersion and Kind head catalog.yaml.
const (
	APIVersion = "copyhold.dev/v1alpha1"
	Kind       = "Catalog"
)

// Catalog is what the platform offers. It is not changed once loaded.
type Catalog struct {
	Spec
	Pools map[string]ledger.Pool // the address pools, parsed

	dir  string // folder of catalog.yaml in the tree
	tree fs.FS
	doc  strict.Document

	bears map[diag.Finding][]string // the parts that a finding of Load is about; see Bearing
}

// Spec is the body of catalog.yaml. Everything in it is keyed by name.
type Spec struct {
	ClusterAPI     string                 `json:"clusterAPI"`               // release of Cluster API in the management cluster
	Tiers          map[string]Tier        `json:"tiers"`                    // the cluster shapes on offer
	Classes        map[string]ClassSource `json:"classes,omitempty"`        // where ClusterClasses come from
	Versions       []string               `json:"versions"`                 // Kubernetes versions that have a worker image; a set
	AddressPools   map[string]AddressPool `json:"addressPools,omitempty"`   // control-plane addresses
	QuarantineDays *int32                 `json:"quarantineDays,omitempty"` // how long a released address is kept from others; 30 when left out
	SubnetClaim    SubnetClaim            `json:"subnetClaim,omitempty"`    // how a SubnetRequest is written out
	Overlays       map[string]Overlay     `json:"overlays,omitempty"`       // Kustomize overlays, applied in order of their names
	Policy         Policy                 `json:"policy,omitempty"`         // what must happen before a change may replace machines
	Gate           *Gate                  `json:"gate,omitempty"`           // what looks at the management cluster before a sync; none when left out
	Tenants        map[string]Tenant      `json:"tenants,omitempty"`        // by namespace
	DefaultTenant  Tenant                 `json:"defaultTenant,omitempty"`  // of those under tenants, what they leave out; and all others
	Tenancy        Tenancy                `json:"tenancy,omitempty"`        // what is rendered for each of tenants
	DataStores     map[string]DataStore   `json:"dataStores,omitempty"`     // requests may name any when there are none here
	MachineSizes   map[string]MachineSize `json:"machineSizes,omitempty"`   // what machines take whose template does not say
	PlatformCIDRs  map[string]string      `json:"platformCIDRs,omitempty"`  // ranges of the management cluster, which clusters must keep out of
}

// Tier is one cluster shape on offer: a ClusterClass (Class and From) or a chart of the objects that make up a cluster (Chart).
type Tier struct {
	Description   string         `json:"description,omitempty"`   //
	Class         string         `json:"class,omitempty"`         // name of the ClusterClass
	From          string         `json:"from,omitempty"`          // key in classes: where the ClusterClass comes from
	Chart         string         `json:"chart,omitempty"`         // folder of a chart, relative to catalog.yaml, rendered for each cluster
	Values        map[string]any `json:"values,omitempty"`        // of the chart, the same for all clusters
	Digest        string         `json:"digest,omitempty"`        // of the chart's folder, checked when given; catalog show prints it
	Access        Access         `json:"access,omitempty"`        // how the control planes of a chart's clusters are reached; by an address each when left out
	Domain        string         `json:"domain,omitempty"`        // with access: control planes are reached at NAME.NAMESPACE.DOMAIN
	WorkerClass   string         `json:"workerClass,omitempty"`   // of pools that name none; may be left out when the class has one only
	AddressPool   string         `json:"addressPool,omitempty"`   // where control-plane addresses come from; empty: clusters of the tier take none
	ServerAddress bool           `json:"serverAddress,omitempty"` // clusters need an address in their subnet, for workers to join by
	Enabled       *bool          `json:"enabled,omitempty"`       // false: nobody may ask for a new cluster; running ones go on
	Defaults      map[string]any `json:"defaults,omitempty"`      // put over the class's own variable defaults; keyed as topology.Defaults
}

// On reports whether new clusters of the tier may be asked for.
func (t Tier) On() bool { return t.Enabled == nil || *t.Enabled }

// ClassSource is a Helm chart or a folder of manifests that holds ClusterClasses and their templates. Chart and Manifests are
// folders, KMetal is a file, relative to catalog.yaml; one of Chart and Manifests is given.
type ClassSource struct {
	Chart     string            `json:"chart,omitempty"`     // rendered offline
	Values    map[string]any    `json:"values,omitempty"`    // of the chart
	KMetal    string            `json:"kmetal,omitempty"`    // file with a KMetal resource, which gives values of the chart too
	Manifests string            `json:"manifests,omitempty"` // exported from a management cluster
	Namespace string            `json:"namespace"`           // of the ClusterClasses
	Digest    string            `json:"digest,omitempty"`    // of the folder, checked when given; catalog show prints it
	Render    bool              `json:"render,omitempty"`    // the platform application installs these classes
	Fields    map[string]string `json:"fields,omitempty"`    // request field -> variable path, over DefaultFields; "" takes a field away
}

// AddressPool is a set of addresses in the load balancer's hands.
type AddressPool struct {
	Namespace     string         `json:"namespace"`               // MetalLB's own
	Addresses     []string       `json:"addresses"`               // ranges, CIDRs or single addresses
	Reserved      []string       `json:"reserved,omitempty"`      // never given out
	AvoidBuggyIPs bool           `json:"avoidBuggyIPs,omitempty"` // no IPv4 address that ends in .0 or .255
	Mode          Mode           `json:"mode,omitempty"`          // which address manifests are rendered; none when empty
	Advertisement *Advertisement `json:"advertisement,omitempty"` // L2Advertisement when left out
}

// Mode says which address manifests copyhold renders for an address pool.
type Mode string

// The modes of an address pool.
const (
	ModeNone      Mode = "none"      // the load balancer's pool is somebody else's
	ModePool      Mode = "pool"      // one IPAddressPool with the whole range
	ModePerTenant Mode = "perTenant" // one IPAddressPool per tenant, with just that tenant's addresses, fenced to its namespace
)

// Advertisement is how addresses are announced.
type Advertisement struct {
	Kind string         `json:"kind"`           // L2Advertisement or BGPAdvertisement
	Spec map[string]any `json:"spec,omitempty"` // everything but the selection of pools
}

// SubnetClaim is how a subnet is asked for in the management cluster.
type SubnetClaim struct {
	APIVersion  string            `json:"apiVersion"`
	Kind        string            `json:"kind"`
	Placeholder bool              `json:"placeholder,omitempty"` // the group and version are a guess, nobody has confirmed them
	Fields      map[string]string `json:"fields,omitempty"`      // cidr, gateway, serverAddresses -> dotted path in the claim's spec
}

// Overlay is a Kustomize component applied to what is rendered for tenants.
type Overlay struct {
	Path    string   `json:"path"`              // folder, relative to catalog.yaml
	Tiers   []string `json:"tiers,omitempty"`   // only clusters of these tiers; all when empty
	Tenants []string `json:"tenants,omitempty"` // only these namespaces; all when empty
}

// DefaultFields says which ClusterClass variable each field of a request feeds: kMetal's documented names.
var DefaultFields = map[string]string{
	"subnet":            "network.subnet",
	"address":           "controlPlane.network.serviceAddress",
	"publicNames":       "controlPlane.network.certSANs",
	"dataStore":         "controlPlane.dataStoreName",
	"apiServer":         "controlPlane.apiServer.resources",
	"controllerManager": "controlPlane.controllerManager.resources",
	"scheduler":         "controlPlane.scheduler.resources",
	"serverAddress":     "bootstrapConfig.serverAddress",
	"size":              "machineSize",

	// Those below are no fields of a request: a tenant sets them under variables, and rules look at them.
	"serviceType":  "controlPlane.network.serviceType",
	"machineSpecs": "machineSpecs",
	"storageClass": "machineStorage.storageClass",
	"nodeSelector": "infrastructure.nodeSelector",
	"nodePort":     "", // the documented classes have none
}

// Variable is the path of the variable that a request field feeds, split; nil when the class has none for it.
func (s ClassSource) Variable(field string) []string {
	p, ok := s.Fields[field]
	if !ok {
		p = DefaultFields[field]
	}
	if p == "" {
		return nil
	}
	return strings.Split(p, ".")
}

type file struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       Spec   `json:"spec"`
}

// Load reads catalog.yaml in the folder dir of a tree. A catalog with an error in its list is not to be used.
func Load(tree fs.FS, dir string) (*Catalog, diag.List, error) {
	name := path.Join(dir, "catalog.yaml")
	data, err := fs.ReadFile(tree, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, diag.List{diag.Errorf(diag.Pos{File: name}, "catalog/missing", "there is no catalog").
			Hintf("copyhold init writes one")}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading catalog: %w", err)
	}
	docs, found := strict.Parse(name, data)
	if len(docs) != 1 && !found.Failed() {
		found.Add(diag.Errorf(diag.Pos{File: name}, "catalog/malformed", "%d documents, want one", len(docs)))
	}
	if found.Failed() {
		return nil, found, nil
	}
	var f file
	d := docs[0]
	if found.Add(d.Decode("catalog", &f)...); found.Failed() {
		return nil, found, nil
	}
	if f.APIVersion != APIVersion {
		found.Add(diag.Errorf(d.At("apiVersion"), "catalog/malformed", "apiVersion %q, want %s", f.APIVersion, APIVersion))
	}
	if f.Kind != Kind {
		found.Add(diag.Errorf(d.At("kind"), "catalog/malformed", "kind %q, want %s", f.Kind, Kind))
	}
	c := &Catalog{Spec: f.Spec, Pools: map[string]ledger.Pool{}, dir: dir, tree: tree, doc: d, bears: map[diag.Finding][]string{}}
	found.Add(c.check()...)
	return c, found, nil
}

// At is the place of the value under a path of catalog.yaml, starting below spec.
func (c *Catalog) At(p ...string) diag.Pos { return c.doc.At(append([]string{"spec"}, p...)...) }

// Quarantine is how many days a released address is kept from others.
func (c *Catalog) Quarantine() int {
	if c.QuarantineDays == nil {
		return 30
	}
	return int(*c.QuarantineDays)
}

// Sorted gives the keys of one of the catalog's maps in order.
func Sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
