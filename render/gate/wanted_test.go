package gate

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func tenants(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("tenant-%03d", i))
	}
	return out
}

// fleet wants n clusters of one class.
func fleet(n int) Wanted {
	w := Wanted{Head: Head{Application: "catalog", Job: "classes/copyhold-gate-platform", Platform: true, Namespaces: tenants(100)}, Classes: []Class{{Class: "classes/kubeadm", Parts: map[string]string{"spec": "0"}}}}
	for i := range n {
		w.Clusters = append(w.Clusters, Cluster{Cluster: fmt.Sprintf("tenant-%03d/cluster-%04d", i%100, i), Class: "classes/kubeadm", Version: "v1.34.1",
			Parts: map[string]string{"class": "0123456789ab", "version": "0123456789ab", "variables[machineSize]": "0123456789ab"},
			Pools: map[string]Pool{"md-0": {Hash: "v1:0123456789abcdef", Accepted: Accepted}}})
	}
	return w
}

// What is written is what is read, in whatever chunks it travels, and in one order.
func TestText(t *testing.T) {
	for _, n := range []int{0, 1, 10_000} {
		text, err := fleet(n).Text()
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{1, 1000, MaxLine} {
			chunks := Split(text, size)
			for _, c := range chunks {
				if len(c) > size && strings.Count(c, "\n") > 1 {
					t.Errorf("a chunk of at most %d bytes has %d in several lines", size, len(c))
				}
			}
			if joined := strings.Join(chunks, ""); joined != string(text) {
				t.Fatalf("%d chunks of %d bytes make %d of %d bytes", len(chunks), size, len(joined), len(text))
			}
		}
		got, err := Read(text)
		if err != nil || len(got.Clusters) != n {
			t.Fatalf("%d of %d clusters: %v", len(got.Clusters), n, err)
		}
		again, err := got.Text()
		if err != nil || string(again) != string(text) {
			t.Errorf("what was read of %d clusters is written as something else: %v", n, err)
		}
		backwards := fleet(n)
		for i := range n / 2 {
			backwards.Clusters[i], backwards.Clusters[n-1-i] = backwards.Clusters[n-1-i], backwards.Clusters[i]
		}
		if other, err := backwards.Text(); err != nil || string(other) != string(text) {
			t.Errorf("another order of %d clusters makes another text: %v", n, err)
		}
	}
}

// A part is never taken for the whole, and no line is passed over.
func TestReadRefuses(t *testing.T) {
	text, err := fleet(2).Text()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	namespaces := fmt.Sprintf(`"namespaces":["%s"],`, strings.Join(tenants(100), `","`))
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "it is empty"},
		{"without the last line", strings.Join(lines[:3], ""), "it has 2 lines after the first, which promises 3"},
		{"without the first", strings.Join(lines[1:], ""), `line 1: version "", want copyhold.dev/gate/v1: it was rendered by another release of copyhold`},
		{"twice", string(text) + string(text), "line 5: json: unknown field \"application\""},
		{"of a later release", strings.Replace(string(text), "gate/v1", "gate/v2", 1), `line 1: version "copyhold.dev/gate/v2", want copyhold.dev/gate/v1: it was rendered by another release of copyhold`},
		{"a field that is not known", strings.Replace(string(text), `"accepted"`, `"refused"`, 1), `line 3: json: unknown field "refused"`},
		{"cut off", string(text[:len(text)-10]), "line 4: unexpected EOF"},
		{"a line of nothing", strings.Replace(string(text), lines[1], "{}\n", 1), "line 2: it names neither a class nor a schema nor a cluster"},
		{"nowhere to look", strings.Replace(strings.Replace(string(text), `,"platform":true`, "", 1), namespaces, "", 1), "it names no namespace to look in"},
		{"a cluster where nobody looks", strings.Replace(string(text), namespaces, `"namespaces":["tenant-001"],`, 1), `cluster "tenant-000/cluster-0000" is in none of the namespaces to look in: tenant-001`},
		{"a cluster that hides another", strings.Replace(string(text), "tenant-001/cluster-0001", "tenant-000/cluster-0000", 1), `cluster "tenant-000/cluster-0000" is wanted twice`},
		{"no Job", strings.Replace(string(text), "classes/copyhold-gate-platform", "copyhold-gate", 1), `job "copyhold-gate", want namespace/name`},
		{"a line that is too long", string(text) + strings.Repeat("x", MaxLine+10), "line 5: bufio.Scanner: token too long"},
	} {
		got, err := Read([]byte(c.text))
		if err == nil || err.Error() != c.want || !reflect.DeepEqual(got, Wanted{}) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

const cluster = `
spec:
  topology:
    classRef: {name: kubeadm, namespace: classes}
    version: v1.34.1
    variables:
    - {name: machineSize, value: small}
    - {name: network, value: {subnet: production, mtu: 1500}}
    workers:
      machineDeployments:
      - {class: default-worker, name: blue, replicas: 2}
      - {class: default-worker, name: md-0, replicas: 2}
`

func topologyParts(t *testing.T, text string) map[string]string {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	parts, err := TopologyParts(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

// Each edit of a topology shows in the part that it belongs to, and what is no edit in none.
func TestTopologyParts(t *testing.T) {
	was := topologyParts(t, cluster)
	for _, c := range []struct{ from, to, want string }{
		{"", "", ""},
		{"v1.34.1", "v1.33.5", "version"},
		{"name: kubeadm", "name: expert", "class"},
		{"value: small", "value: large", "variables[machineSize]"},
		{"mtu: 1500", "mtu: 1400", "variables[network]"},
		{"{subnet: production, mtu: 1500}", `{"mtu": 1500,   "subnet": "production"}`, ""},
		{"    - {name: machineSize, value: small}\n", "", "variables[machineSize]"},
		{"name: blue, replicas: 2", "name: blue, replicas: 3", "workers[blue]"},
		{"name: md-0, replicas: 2", "name: md-0, replicas: 2, failureDomain: rack-2", "workers[md-0]"},
		{"      - {class: default-worker, name: blue, replicas: 2}\n      - {class: default-worker, name: md-0, replicas: 2}\n", "      - {class: default-worker, name: md-0, replicas: 2}\n      - {class: default-worker, name: blue, replicas: 2}\n", ""},
		{"    version:", "    controlPlane: {replicas: 3}\n    version:", "controlPlane"},
		{"    workers:", "    rollout: {after: \"2026-12-01T00:00:00Z\"}\n    workers:", ""},
		{"      machineDeployments:", "      machinePools: [{class: pool, name: mp-0}]\n      machineDeployments:", "other fields"},
	} {
		if c.from != "" && !strings.Contains(cluster, c.from) {
			t.Fatalf("the cluster has no %q", c.from)
		}
		if got := strings.Join(differing(was, topologyParts(t, strings.Replace(cluster, c.from, c.to, 1))), " "); got != c.want {
			t.Errorf("%q -> %q changes %q, want %q", c.from, c.to, got, c.want)
		}
	}
}

// A note is cut where an API server would refuse it, and never within a letter.
func TestShortened(t *testing.T) {
	for _, n := range []int{0, 1, maxNote, maxNote + 1, 5000} {
		note := strings.Repeat("é", n)
		if got := Shortened(note); len(got) > maxNote || !strings.HasSuffix(got, "...") && got != note || strings.Contains(got, "\ufffd") {
			t.Errorf("%d letters are cut to %d bytes: %q", n, len(got), got[max(0, len(got)-20):])
		}
	}
}
