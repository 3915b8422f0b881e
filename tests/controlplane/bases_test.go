package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// catalogText is a catalog with one tier, and NAMESPACE to be put in.
const catalogText = `apiVersion: copyhold.dev/v1alpha1
kind: Catalog
spec:
  clusterAPI: v1.14.2
  tiers:
    kubeadm:
      description: as built in
      class: kubevirt-kubeadm
      from: kmetal
      workerClass: default-worker
      addressPool: pool
      defaults: {controlPlane.dataStoreName: default}
  classes:
    kmetal:
      chart: classes/kmetal
      values: {tiers: {kubeadm: {enabled: true}, standard: {enabled: false}, expert: {enabled: false}}}
      namespace: NAMESPACE-classes
      render: true
  policy: {rollouts: allow}
  versions: [v1.33.5, v1.33.9, v1.34.1, v1.35.0]
  addressPools:
    pool: {namespace: metallb, addresses: [192.0.2.0/24], mode: none}
  dataStores: {default: {}, gold: {}}
  subnetClaim:
    apiVersion: placeholder.copyhold.dev/v1alpha1
    kind: SubnetClaim
    placeholder: true
    fields: {cidr: cidrBlock, gateway: gateway}
`

// solar is the request that most edits are made to.
const solar = `apiVersion: copyhold.dev/v1alpha1
kind: ClusterRequest
metadata:
  name: solar
spec:
  tier: kubeadm
  version: v1.33.5
  subnet: production
  publicNames: [198.51.100.10]
  controlPlane:
    replicas: 2
  workers:
    md-0: {replicas: 1, size: small}
`

const batch = `---
apiVersion: copyhold.dev/v1alpha1
kind: SubnetRequest
metadata:
  name: batch
spec:
  cidr: 10.100.1.0/24
  gateway: 10.100.1.1
`

// fresh is a folder with what copyhold init makes. The folder is removed with that of the command.
var fresh = sync.OnceValue(func() string {
	dir := filepath.Join(filepath.Dir(copyhold), "fresh")
	if err := os.Mkdir(dir, 0o755); err != nil {
		panic(err)
	}
	c := exec.Command(copyhold, "init")
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("copyhold init: %v\n%s", err, out))
	}
	return dir
})

// baseOf is a repository as it runs before an edit, in namespaces of its own.
func baseOf(t *testing.T, namespace string, e edit) repository {
	r := copyOf(t, fresh())
	r.write("catalog/catalog.yaml", strings.ReplaceAll(catalogText, "NAMESPACE", namespace))
	r.write("tenants/"+namespace+"/network.yaml", network+batch)
	r.write("tenants/"+namespace+"/solar.yaml", solar)
	if e.class {
		if err := os.MkdirAll(r.path("catalog/classes/exported"), 0o755); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile("testdata/exported.yaml")
		if err != nil {
			t.Fatal(err)
		}
		r.write("catalog/classes/exported/small.yaml", strings.ReplaceAll(string(text), "NAMESPACE", namespace))
		r.edit("catalog/catalog.yaml", "      class: kubevirt-kubeadm\n      from: kmetal\n      workerClass: default-worker", "      class: small\n      from: small")
		r.edit("catalog/catalog.yaml", "    kmetal:\n      chart: classes/kmetal\n      values: {tiers: {kubeadm: {enabled: true}, standard: {enabled: false}, expert: {enabled: false}}}",
			"    small:\n      manifests: classes/exported\n      fields: {address: vip, size: flavor, dataStore: dataStore, publicNames: \"\"}")
		r.edit("catalog/catalog.yaml", "      defaults: {controlPlane.dataStoreName: default}\n", "")
		r.write("tenants/"+namespace+"/solar.yaml", strings.NewReplacer("  publicNames: [198.51.100.10]\n", "", "size: small", "size: e1").Replace(solar))
	}
	if e.chart {
		r.must("catalog", "add", "kubevirt")
		r.edit("catalog/catalog.yaml", "      class: kubevirt-kubeadm\n      from: kmetal\n      workerClass: default-worker", "      chart: tiers/kubevirt")
	}
	if e.prepare != nil {
		e.prepare(r)
	}
	allocated(r)
	return r
}

// allocated gives out addresses, as far as the requests are right.
func allocated(r repository) { _, _, _ = r.run("allocate") }

func (r repository) tenant() string { return r.tenants()[0] }

// request edits the request of solar.
func request(from, to string) func(repository) {
	return func(r repository) { r.edit("tenants/"+r.tenant()+"/solar.yaml", from, to) }
}

// chart edits a file of the chart.
func chart(file, from, to string) func(repository) {
	return func(r repository) { r.edit("catalog/classes/kmetal/"+file, from, to) }
}

// explicit edits a file of the chart of explicit objects.
func explicit(file, from, to string) func(repository) {
	return func(r repository) { r.edit("catalog/tiers/kubevirt/"+file, from, to) }
}

// class edits the exported class.
func class(from, to string) func(repository) {
	return func(r repository) { r.edit("catalog/classes/exported/small.yaml", from, to) }
}

func catalog(from, to string) func(repository) {
	return func(r repository) { r.edit("catalog/catalog.yaml", from, to) }
}

func both(changes ...func(repository)) func(repository) {
	return func(r repository) {
		for _, c := range changes {
			c(r)
		}
	}
}
