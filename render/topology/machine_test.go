package topology

import (
	"fmt"
	"testing"

	"sigs.k8s.io/yaml"

	"copyhold.dev/copyhold/render/manifest"
)

// What a machine takes and boots is read off its template where KubeVirt reads it.
func TestMachine(t *testing.T) {
	for _, c := range []struct{ kind, vm, cpu, memory, image string }{
		{"KubevirtMachineTemplate", `{template: {spec: {domain: {cpu: {cores: 4}, memory: {guest: 8Gi}}}}}`, "4", "8Gi", ""},
		{"KubevirtMachineTemplate", `{template: {spec: {domain: {cpu: {cores: 2, sockets: 3, threads: 2}, memory: {guest: 8Gi}}}}}`, "12", "8Gi", ""},
		{"KubevirtMachineTemplate", `{template: {spec: {domain: {cpu: {sockets: 3}, resources: {requests: {memory: 512Mi}}}}}}`, "3", "512Mi", ""},
		{"KubevirtMachineTemplate", `{template: {spec: {domain: {cpu: {model: host-passthrough}, resources: {requests: {cpu: 500m, memory: 2Gi}, limits: {cpu: 2}}}}}}`, "2", "2Gi", ""},
		{"KubevirtMachineTemplate", `{template: {spec: {domain: {resources: {requests: {cpu: 500m}}}}}}`, "500m", "-", ""},
		{"KubevirtMachineTemplate", `{template: {spec: {domain: {}}}}`, "-", "-", ""},
		{"KubevirtMachineTemplate", `{instancetype: {name: u1.medium}, template: {spec: {domain: {cpu: {cores: 4}}}}}`, "-", "-", ""},
		{"HostMachineTemplate", `{template: {spec: {domain: {cpu: {cores: 4}, memory: {guest: 8Gi}}}}}`, "-", "-", ""},
		{"KubevirtMachineTemplate", `{template: {spec: {volumes: [{containerDisk: {image: "disks.example.org:5000/ubuntu:v1.34.1"}}]}}}`, "-", "-", "v1.34.1"},
		{"KubevirtMachineTemplate", `{template: {spec: {volumes: [{containerDisk: {image: "disks.example.org/ubuntu:v1.34.1_k3s1"}}]}}}`, "-", "-", "v1.34.1"},
		{"KubevirtMachineTemplate", `{template: {spec: {volumes: [{containerDisk: {image: "disks.example.org/ubuntu:24.04"}}]}}}`, "-", "-", ""},
		{"KubevirtMachineTemplate", `{template: {spec: {volumes: [{containerDisk: {image: "disks.example.org/v1.34.1/ubuntu"}}]}}}`, "-", "-", ""},
	} {
		o := &manifest.Object{}
		text := fmt.Sprintf(`{kind: %s, spec: {template: {spec: {virtualMachineTemplate: {spec: %s}}}}}`, c.kind, c.vm)
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		p := &Pool{Infrastructure: o}
		cpu, memory := "-", "-"
		q, m := p.Machine()
		if q != nil {
			cpu = q.String()
		}
		if m != nil {
			memory = m.String()
		}
		if cpu != c.cpu || memory != c.memory || p.ImageVersion() != c.image {
			t.Errorf("%s %s takes %s CPU, %s memory and boots %q, want %s, %s, %q", c.kind, c.vm, cpu, memory, p.ImageVersion(), c.cpu, c.memory, c.image)
		}
	}
}
