package tests

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// providerModules are where the CustomResourceDefinitions of the kinds in examples/tiers come from, whole: with the rules of CEL, and of
// every version.
var providerModules = []struct{ module, dir string }{
	{"sigs.k8s.io/cluster-api@v1.14.2", "core/config/crd/bases"},
	{"sigs.k8s.io/cluster-api@v1.14.2", "bootstrap/kubeadm/config/crd/bases"},
	{"sigs.k8s.io/cluster-api-provider-kubevirt@v0.11.2", "config/crd/bases"},
	{"github.com/clastix/cluster-api-control-plane-provider-kamaji@v0.20.0", "config/crd/bases"},
	{"github.com/clastix/kamaji@v1.0.0", "config/crd/bases"},
	{"github.com/ionos-cloud/cluster-api-provider-proxmox@v0.9.0", "config/crd/bases"},
	{"github.com/nutanix-cloud-native/cluster-api-provider-nutanix@v1.10.3", "config/crd/bases"},
	{"sigs.k8s.io/cluster-api-provider-packet@v0.9.0", "config/crd/bases"},
	{"sigs.k8s.io/cluster-api-addon-provider-helm@v0.6.4", "config/crd/bases"},
}

// moduleDir is the folder of a module in Go's module cache.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	var answer struct{ Dir, Error string }
	if bad := json.Unmarshal(out, &answer); err != nil || bad != nil || answer.Dir == "" {
		t.Fatalf("go mod download %s: %v %v %s", module, err, bad, answer.Error)
	}
	return answer.Dir
}

// providerCRDs reads the definitions of providers. Two providers publish none as a Go module: theirs are taken from the folder that
// COPYHOLD_CRDS names, one folder in it for each provider.
func providerCRDs(t *testing.T) func(crd string) ([]byte, error) {
	var dirs []string
	for _, m := range providerModules {
		dirs = append(dirs, filepath.Join(moduleDir(t, m.module), m.dir))
	}
	if folder := os.Getenv("COPYHOLD_CRDS"); folder != "" {
		for _, provider := range []string{"metal-stack", "hetzner"} {
			dirs = append(dirs, filepath.Join(folder, provider))
		}
	}
	return func(crd string) ([]byte, error) {
		plural, group, _ := strings.Cut(crd, ".")
		for _, dir := range dirs {
			data, err := os.ReadFile(filepath.Join(dir, group+"_"+plural+".yaml"))
			if !errors.Is(err, fs.ErrNotExist) {
				return data, err
			}
		}
		return nil, fs.ErrNotExist
	}
}

// What each tier makes is taken by the schemas of its provider, CEL rules included, strictly: no field is unknown to them.
func TestTiersMakeWhatProvidersTake(t *testing.T) {
	schemas := topology.NewSchemas(providerCRDs(t))
	checked := map[string]int{}
	for _, file := range []string{"photon-prod.yaml", "dynamo-prod.yaml"} {
		data, err := os.ReadFile("../examples/tiers/rendered/" + file)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := manifest.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			t.Run(fmt.Sprintf("%s/%s/%s", o.GetKind(), o.GetNamespace(), o.GetName()), func(t *testing.T) {
				known, err := schemas.Known(o)
				switch kind := o.GetKind(); {
				case err != nil:
					t.Fatal(err)
				case known:
				case strings.HasPrefix(kind, "MetalStack") || strings.HasPrefix(kind, "Hetzner") || strings.HasPrefix(kind, "HCloud"):
					t.Skipf("not checked: no Go module has the definition of %s; COPYHOLD_CRDS names a folder that has", kind)
				case kind == "SubnetClaim":
					t.Skip("not checked: the definition of SubnetClaim is not public")
				default:
					t.Fatalf("there is no definition of %s", kind)
				}
				problems, err := schemas.Validate(o, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range problems {
					t.Errorf("%s: %s", p.Type, p.Words())
				}
				checked[o.GetKind()]++
			})
		}
	}
	for _, kind := range []string{"Cluster", "MachineDeployment", "KamajiControlPlane", "TenantControlPlane", "KubeadmConfigTemplate", "KubevirtMachineTemplate", "KubevirtCluster",
		"ProxmoxCluster", "ProxmoxMachineTemplate", "NutanixCluster", "NutanixMachineTemplate", "PacketCluster", "PacketMachineTemplate", "HelmChartProxy"} {
		if checked[kind] == 0 {
			t.Errorf("examples/tiers has no %s that was checked", kind)
		}
	}
}
