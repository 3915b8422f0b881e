package render

import (
	"maps"
	"strconv"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/manifest"
)

// Kubernetes counts objects of a custom kind under count/<plural>.<group>; a plain <plural>.<group> counts nothing
// (https://kubernetes.io/docs/concepts/policy/resource-quotas/#object-count-quota).
const (
	countClusters      = "count/clusters.cluster.x-k8s.io"
	countControlPlanes = "count/tenantcontrolplanes.kamaji.clastix.io"
)

// tenancyObjects are what the platform application makes for each tenant of the catalog: its namespace, a quota that holds even for who
// gets past Git, and who may look after its clusters.
func tenancyObjects(c *catalog.Catalog) []*manifest.Object {
	var out []*manifest.Object
	for _, ns := range catalog.Sorted(c.Tenants) {
		t := c.Tenant(ns)
		if c.Tenancy.Namespaces {
			out = append(out, namespaceObject(ns, c.Tenancy.Labels))
		}
		if limit := t.Quota.Clusters; limit != nil && c.Tenancy.ResourceQuotas {
			n := strconv.FormatInt(*limit, 10) // as an API server gives it back
			out = append(out, object("v1", "ResourceQuota", platformMetadata(ns, managedBy, ns), map[string]any{
				"spec": map[string]any{"hard": map[string]any{countClusters: n, countControlPlanes: n}},
			}))
		}
		var subjects []any
		for _, s := range []struct {
			kind  string
			names []string
		}{{"Group", t.Groups}, {"User", t.Users}} {
			for _, name := range set(s.names) {
				subjects = append(subjects, map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": s.kind, "name": name})
			}
		}
		if role := c.Tenancy.ClusterRole; role != "" && len(subjects) > 0 {
			out = append(out, object("rbac.authorization.k8s.io/v1", "RoleBinding", platformMetadata(ns, role, ns), map[string]any{
				"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
				"subjects": subjects,
			}))
		}
	}
	return out
}

// namespaceObject is a tenant's namespace. All that the tenant has goes with it, so nothing removes it without a person's word.
func namespaceObject(name string, more map[string]string) *manifest.Object {
	all := map[string]any{}
	for key, value := range more {
		all[key] = value
	}
	maps.Copy(all, labels(name, name))
	return object("v1", "Namespace", map[string]any{
		"name": name, "labels": all, "annotations": map[string]any{syncOptions: "Prune=confirm,Delete=confirm"},
	}, nil)
}

func platformMetadata(namespace, name, partOf string) map[string]any {
	return map[string]any{"namespace": namespace, "name": name, "labels": labels(name, partOf)}
}

func object(apiVersion, kind string, metadata, rest map[string]any) *manifest.Object {
	o := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
	maps.Copy(o, rest)
	return &manifest.Object{Object: o}
}
