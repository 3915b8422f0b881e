package topology

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// tagged is an image with a Kubernetes version for its tag.
var tagged = regexp.MustCompile(`:(v\d+\.\d+\.\d+)[^/]*$`)

// ImageVersion is the Kubernetes version in the tag of the image that a pool's machines start from; "" when none is named there.
func (p *Pool) ImageVersion() string { return imageVersion("", p.Infrastructure.Object["spec"]) }

func imageVersion(key string, v any) string {
	switch x := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			if version := imageVersion(k, x[k]); version != "" {
				return version
			}
		}
	case []any:
		for _, e := range x {
			if version := imageVersion(key, e); version != "" {
				return version
			}
		}
	case string:
		if m := tagged.FindStringSubmatch(x); m != nil && (key == "image" || key == "url") {
			return m[1]
		}
	}
	return ""
}

// Machine is what one machine of a pool takes, as its template says; nil where it does not. Only a KubevirtMachineTemplate is read: its
// domain, as KubeVirt does (api/core/v1/schema.go of KubeVirt). One whose figures an instance type gives does not say.
func (p *Pool) Machine() (cpu, memory *resource.Quantity) {
	if p.Infrastructure.GetKind() != "KubevirtMachineTemplate" {
		return nil, nil
	}
	vm := []string{"spec", "template", "spec", "virtualMachineTemplate", "spec"}
	if lookup(p.Infrastructure, append(vm, "instancetype")...) != nil {
		return nil, nil
	}
	domain := append(vm, "template", "spec", "domain")
	at := func(path ...string) any { return lookup(p.Infrastructure, append(slices.Clone(domain), path...)...) }
	if topology, ok := at("cpu").(map[string]any); ok {
		cpu = cores(topology)
	}
	if cpu == nil {
		cpu = quantity(at("resources", "limits", "cpu"), at("resources", "requests", "cpu"))
	}
	memory = quantity(at("memory", "guest"), at("resources", "limits", "memory"), at("resources", "requests", "memory"))
	return cpu, memory
}

// cores are the virtual CPUs of a topology: each of its three figures is 1 when it is left out. Nil when all are.
func cores(topology map[string]any) *resource.Quantity {
	n, given := int64(1), false
	for _, key := range []string{"cores", "sockets", "threads"} {
		if q := quantity(topology[key]); q != nil {
			n, given = n*q.Value(), true
		}
	}
	if !given {
		return nil
	}
	return resource.NewQuantity(n, resource.DecimalSI)
}

// quantity is the first value that is one of more than nothing.
func quantity(values ...any) *resource.Quantity {
	for _, v := range values {
		if v == nil {
			continue
		}
		if q, err := resource.ParseQuantity(fmt.Sprint(v)); err == nil && q.Sign() > 0 {
			return &q
		}
	}
	return nil
}
