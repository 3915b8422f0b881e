package gate

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"copyhold.dev/copyhold/catalog"
)

// TopologyParts are digests of a Cluster's spec.topology, part by part: its class, each variable, each worker pool. It is read into
// Cluster API's own type, so what an API server leaves out or writes another way is no difference; variables and pools have no order.
// The number of machines counts as well: a patch of the class may read it.
func TopologyParts(cluster map[string]any) (map[string]string, error) {
	var c clusterv1.Cluster
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"spec": cluster["spec"]}, &c); err != nil {
		return nil, err
	}
	t := c.Spec.Topology
	parts := map[string]string{}
	add := func(place string, v any) error {
		sum, err := sum(v)
		parts[place] = sum
		return err
	}
	for _, v := range t.Variables {
		if err := add("variables["+v.Name+"]", v); err != nil {
			return nil, err
		}
	}
	for _, md := range t.Workers.MachineDeployments {
		if err := add("workers["+md.Name+"]", md); err != nil {
			return nil, err
		}
	}
	t.Variables, t.Workers.MachineDeployments = nil, nil
	for place, v := range map[string]any{"class": t.ClassRef, "version": t.Version, "controlPlane": t.ControlPlane} {
		if err := add(place, v); err != nil {
			return nil, err
		}
	}
	t.ClassRef, t.Version, t.ControlPlane = clusterv1.ClusterClassRef{}, "", clusterv1.ControlPlaneTopology{}
	return parts, add("other fields", t)
}

// sum digests a value as JSON has it: that of a variable may have been written with other spaces.
func sum(v any) (string, error) {
	j, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	var plain any
	if err := json.Unmarshal(j, &plain); err != nil {
		return "", err
	}
	return catalog.Sum(plain), nil
}

// differing are the keys under which two maps differ, sorted.
func differing(a, b map[string]string) []string {
	out := map[string]bool{}
	for k, v := range a {
		if b[k] != v {
			out[k] = true
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			out[k] = true
		}
	}
	return catalog.Sorted(out)
}
