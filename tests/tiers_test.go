package tests

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// Where the fields that variables reach stand in the desired objects.
const (
	vm   = "machine virtualMachineTemplate.spec.template."
	boot = "machine virtualMachineTemplate.spec.dataVolumeTemplates[0].spec."
)

// variable is one value of one variable and what becomes of it.
type variable struct {
	set string // path=JSON, several with " & " between; the path starts with the variable's name
	on  string // tiers that accept it, by initial: s, e, k
	// lands is what the desired objects have then and have not without it, for all accepting tiers. Empty: it is accepted and changes
	// nothing. With more than one tier, "s ", "e " or "k " before a place is for that tier alone.
	lands map[string]any
}

// tiers is the table of the documentation: which tier knows which variable, its bounds, and the field it is for.
var tiers = []variable{
	{set: `network.subnet="batch"`, on: "sek", lands: map[string]any{vm + "metadata.annotations.ovn.kubernetes.io/logical_switch": "batch"}},
	{set: `network=null`, on: ""},
	{set: `network={}`, on: ""},
	{set: `network.subnet=""`, on: ""},

	{set: `controlPlane.dataStoreName="gold"`, on: "sek", lands: map[string]any{"control-plane dataStoreName": "gold"}},
	{set: `controlPlane.network.serviceType="LoadBalancer"`, on: "sek"}, // as without it
	{set: `controlPlane.network.serviceType="NodePort"`, on: "sek", lands: map[string]any{"control-plane network.serviceType": "NodePort"}},
	{set: `controlPlane.network.serviceType="ClusterIP"`, on: "sek", lands: map[string]any{"control-plane network.serviceType": "ClusterIP"}},
	{set: `controlPlane.network.serviceType="ExternalName"`, on: ""},
	{set: `controlPlane.network.serviceAddress="172.21.208.111"`, on: "sek", lands: map[string]any{
		"control-plane network.serviceAddress":                                "172.21.208.111",
		"control-plane network.serviceAnnotations.metallb.io/loadBalancerIPs": "172.21.208.111",
	}},
	{set: `controlPlane.network.serviceAddress="172.21.208.111" & controlPlane.network.serviceType="NodePort"`, on: "sek", lands: map[string]any{
		"control-plane network.serviceAddress": "172.21.208.111",
		"control-plane network.serviceType":    "NodePort",
	}},
	{set: `controlPlane.network.serviceAddress="solar.example.org"`, on: ""},
	{set: `controlPlane.network.certSANs=["198.51.100.10","solar.example.org","2001:db8:10::1"]`, on: "sek", lands: map[string]any{
		"control-plane network.certSANs[0]": "198.51.100.10",
		"control-plane network.certSANs[1]": "solar.example.org",
		"control-plane network.certSANs[2]": "2001:db8:10::1",
	}},
	{set: `controlPlane.network.certSANs=["198.51.100.10:6443"]`, on: ""},
	{set: `controlPlane.network.certSANs="198.51.100.10"`, on: ""},
	{set: `controlPlane.apiServer.resources.requests={"cpu":"500m","memory":"1Gi"} & controlPlane.apiServer.resources.limits={"cpu":2,"memory":"4Gi"}`, on: "ek", lands: map[string]any{
		"control-plane apiServer.resources.requests.cpu":    "500m",
		"control-plane apiServer.resources.requests.memory": "1Gi",
		"control-plane apiServer.resources.limits.cpu":      int64(2),
		"control-plane apiServer.resources.limits.memory":   "4Gi",
	}},
	{set: `controlPlane.controllerManager.resources.limits={"cpu":"1"}`, on: "ek", lands: map[string]any{"control-plane controllerManager.resources.limits.cpu": "1"}},
	{set: `controlPlane.scheduler.resources.requests={"memory":"64Mi"}`, on: "ek", lands: map[string]any{"control-plane scheduler.resources.requests.memory": "64Mi"}},
	{set: `controlPlane.scheduler.resources.requests={"memory":"much"}`, on: ""},
	{set: `controlPlane.registry="registry.example.org"`, on: "ek", lands: map[string]any{"control-plane registry": "registry.example.org"}},
	{set: `controlPlane.replicas=3`, on: ""}, // replicas are no variable: spec.topology.controlPlane has them

	{set: `machineSize="small"`, on: "sek"}, // the default
	{set: `machineSize="medium"`, on: "sek", lands: map[string]any{vm + "spec.domain.cpu.cores": int64(4), vm + "spec.domain.memory.guest": "8Gi"}},
	{set: `machineSize="large"`, on: "sek", lands: map[string]any{vm + "spec.domain.cpu.cores": int64(8), vm + "spec.domain.memory.guest": "16Gi"}},
	{set: `machineSize="huge"`, on: ""},
	{set: `machineSize="custom"`, on: "ek"}, // without specs: as the template has it
	{set: `machineSize="custom" & machineSpecs={"cpuCores":12,"memoryGiB":48}`, on: "ek", lands: map[string]any{vm + "spec.domain.cpu.cores": int64(12), vm + "spec.domain.memory.guest": "48Gi"}},
	{set: `machineSize="custom" & machineSpecs={"cpuCores":1,"memoryGiB":128}`, on: "ek", lands: map[string]any{vm + "spec.domain.cpu.cores": int64(1), vm + "spec.domain.memory.guest": "128Gi"}},
	{set: `machineSize="custom" & machineSpecs={"cpuCores":64,"memoryGiB":2}`, on: "ek", lands: map[string]any{vm + "spec.domain.cpu.cores": int64(64), vm + "spec.domain.memory.guest": "2Gi"}},
	{set: `machineSpecs={"cpuCores":12,"memoryGiB":48}`, on: "ek"}, // ignored: the size is not custom
	{set: `machineSize="large" & machineSpecs={"cpuCores":12,"memoryGiB":48}`, on: "ek", lands: map[string]any{vm + "spec.domain.cpu.cores": int64(8), vm + "spec.domain.memory.guest": "16Gi"}},
	{set: `machineSpecs.cpuCores=0`, on: ""},
	{set: `machineSpecs.cpuCores=65`, on: ""},
	{set: `machineSpecs.memoryGiB=1`, on: ""},
	{set: `machineSpecs.memoryGiB=129`, on: ""},
	{set: `machineSpecs.memoryGiB="48Gi"`, on: ""},

	{set: `machineStorage.size="30Gi"`, on: "se"}, // the first storage tier
	{set: `machineStorage.size="50Gi"`, on: "se", lands: map[string]any{
		boot + "storage.resources.requests.storage": "50Gi",
		boot + "sourceRef.name":                     "golden-v1.34.1-50gi",
	}},
	{set: `machineStorage.size="31Gi"`, on: ""},
	{set: `machineStorage.storageClass="archive"`, on: "se", lands: map[string]any{boot + "storage.storageClassName": "archive"}},
	{set: `machineStorage.storageClass="Fast Class"`, on: ""},
	{set: `machineStorage.storageAccessMode="ReadWriteOnce"`, on: "se"}, // the first access mode
	{set: `machineStorage.storageAccessMode="ReadWriteMany"`, on: "se", lands: map[string]any{boot + "storage.accessModes[0]": "ReadWriteMany"}},
	{set: `machineStorage.storageAccessMode="ReadOnlyMany"`, on: ""},

	{set: `infrastructure.nodeSelector={"node-role.kubernetes.io/compute":""}`, on: "ek", lands: map[string]any{vm + "spec.nodeSelector.node-role.kubernetes.io/compute": ""}},
	{set: `infrastructure.tolerations=[{"key":"tenant","operator":"Exists","effect":"NoSchedule"}]`, on: "ek", lands: map[string]any{
		vm + "spec.tolerations[0].key":      "tenant",
		vm + "spec.tolerations[0].operator": "Exists",
		vm + "spec.tolerations[0].effect":   "NoSchedule",
	}},
	{set: `infrastructure.tolerations=[{"value":"x"}]`, on: ""},
	{set: `infrastructure.terminationGracePeriodSeconds=0`, on: "ek", lands: map[string]any{vm + "spec.terminationGracePeriodSeconds": int64(0)}},
	{set: `infrastructure.terminationGracePeriodSeconds=-1`, on: ""},

	{set: `bootstrapConfig.serverAddress="10.100.0.254"`, on: "sek", lands: map[string]any{
		"control-plane network.advertiseAddress": "10.100.0.254",
		"s bootstrap serverAddress":              "10.100.0.254",
		"e bootstrap serverAddress":              "10.100.0.254",
	}},
	{set: `bootstrapConfig.serverAddress="solar.example.org"`, on: ""},
	{set: `bootstrapConfig.users=[{"name":"ops","sudo":"ALL=(ALL) NOPASSWD:ALL"}]`, on: "k", lands: map[string]any{
		"bootstrap users[0].name": "ops",
		"bootstrap users[0].sudo": "ALL=(ALL) NOPASSWD:ALL",
	}},
	{set: `bootstrapConfig.users=[{"sudo":"ALL=(ALL) NOPASSWD:ALL"}]`, on: ""},
	{set: `machineColour="blue"`, on: ""},
}

// Each tier accepts, refuses or ignores each variable as documented, and what it accepts changes those fields of the desired objects
// that it is for, and no other.
func TestTiers(t *testing.T) {
	const fleet = "../examples/fleet"
	for _, tier := range []string{"standard", "expert", "kubeadm"} {
		class := classOf(t, fleet, tier)
		desired := func(t *testing.T, version, set string) map[string]any {
			t.Helper()
			d, problems, err := class.Desired(admit(t, class, clusterWith(t, class, version, set)))
			if err != nil || len(problems) > 0 {
				t.Fatal(err, problems)
			}
			return fields(d)
		}
		base := desired(t, "v1.34.1", "")
		initial := tier[:1]
		for _, v := range tiers {
			t.Run(tier+"/"+v.set, func(t *testing.T) {
				if !strings.Contains(v.on, initial) {
					if _, problems, err := class.Admit(clusterWith(t, class, "v1.34.1", v.set)); err != nil || len(problems) == 0 {
						t.Errorf("it is accepted, %v", err)
					}
					return
				}
				want := map[string]any{}
				for place, value := range v.lands {
					if only, rest, ok := strings.Cut(place, " "); !ok || len(only) > 1 {
						want[place] = value
					} else if only == initial {
						want[rest] = value
					}
				}
				if d := cmp.Diff(want, changes(base, desired(t, "v1.34.1", v.set))); d != "" {
					t.Errorf("what the desired objects have then (-want +got):\n%s", d)
				}
			})
		}
		t.Run(tier+"/version", func(t *testing.T) {
			want := map[string]any{"control-plane version": "v1.33.5", "machine virtualMachineTemplate.spec.dataVolumeTemplates[0].spec.sourceRef.name": "golden-v1.33.5-30gi"}
			if tier == "kubeadm" {
				want = map[string]any{"control-plane version": "v1.33.5", vm + "spec.volumes[0].containerDisk.image": "quay.io/capk/ubuntu-2404-container-disk:v1.33.5"}
			}
			if d := cmp.Diff(want, changes(base, desired(t, "v1.33.5", ""))); d != "" {
				t.Errorf("what the desired objects of another version have (-want +got):\n%s", d)
			}
		})
	}
}

// clusterWith is a Cluster of the class with these variables, see variable.set; network.subnet is there unless they say otherwise.
func clusterWith(t *testing.T, class *topology.Class, version, set string) *manifest.Object {
	t.Helper()
	variables := map[string]any{"network": map[string]any{"subnet": "production"}}
	for a := range strings.SplitSeq(set, " & ") {
		if a == "" {
			continue
		}
		path, text, _ := strings.Cut(a, "=")
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		at, keys := variables, strings.Split(path, ".")
		for _, key := range keys[:len(keys)-1] {
			if _, ok := at[key]; !ok {
				at[key] = map[string]any{}
			}
			at = at[key].(map[string]any)
		}
		if at[keys[len(keys)-1]] = value; value == nil {
			delete(at, keys[len(keys)-1])
		}
	}
	var list []any
	for _, name := range catalog.Sorted(variables) {
		list = append(list, map[string]any{"name": name, "value": variables[name]})
	}
	j, err := json.Marshal(map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": map[string]any{"name": "solar", "namespace": "photon-prod"},
		"spec": map[string]any{"topology": map[string]any{
			"classRef": map[string]any{"name": class.Key().Name, "namespace": class.Key().Namespace}, "version": version, "variables": list,
			"workers": map[string]any{"machineDeployments": []any{map[string]any{"class": "default-worker", "name": "md-0", "replicas": 2}}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	o := &manifest.Object{}
	if err := o.UnmarshalJSON(j); err != nil {
		t.Fatal(err)
	}
	return o
}

// fields are the leaves of the desired objects of a Cluster with one worker pool, by object and path below its spec.
func fields(d *topology.Desired) map[string]any {
	out := map[string]any{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				walk(strings.TrimPrefix(path+"."+key, "."), value)
			}
		case []any:
			for i, value := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), value)
			}
		default:
			out[path] = v
		}
	}
	template := []string{"spec", "template", "spec"}
	for name, object := range map[string]any{
		"control-plane": inside(d.ControlPlane.Object, "spec"),
		"machine":       inside(d.Pools["md-0"].Infrastructure.Object, template...),
		"bootstrap":     inside(d.Pools["md-0"].Bootstrap.Object, template...),
	} {
		for key, value := range object.(map[string]any) {
			walk(name+" "+key, value)
		}
	}
	return out
}

// changes are the leaves that are new or have another value. One that is gone counts as nil.
func changes(before, after map[string]any) map[string]any {
	out := map[string]any{}
	for place, value := range after {
		if old, ok := before[place]; !ok || old != value {
			out[place] = value
		}
	}
	for place := range before {
		if _, ok := after[place]; !ok {
			out[place] = nil
		}
	}
	return out
}

func inside(v any, path ...string) any {
	for _, key := range path {
		v = v.(map[string]any)[key]
	}
	return v
}
