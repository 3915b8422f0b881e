package tests

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/topology"
)

// Every built-in tier but metal-stack can be reached by name through a Gateway or an ingress controller, kamaji through the latter: no
// address is taken, the Service is ClusterIP, the name is asked for, and the providers' schemas take what comes out.
func TestAccessOfEveryTier(t *testing.T) {
	schemas := topology.NewSchemas(providerCRDs(t))
	var catalog map[string]any
	plain := tiersExample(t)
	if err := yaml.Unmarshal(plain["catalog/catalog.yaml"].Data, &catalog); err != nil {
		t.Fatal(err)
	}
	tiers := catalog["spec"].(map[string]any)["tiers"].(map[string]any)
	variables := map[string]string{"proxmox": "  variables: {network: {dnsServers: [198.51.100.2], ipv4: {addresses: [198.51.100.70-198.51.100.80], gateway: 198.51.100.1, prefix: 24}}}\n"}
	for _, tier := range []string{"kamaji", "kubevirt", "proxmox", "nutanix", "metal-stack", "packet", "hetzner"} {
		for access, values := range map[string]map[string]any{
			"gateway": {"gateway": map[string]any{"name": "control-planes", "namespace": "gateways"}},
			"ingress": {"ingress": map[string]any{"className": "nginx"}},
		} {
			t.Run(tier+"/"+access, func(t *testing.T) {
				entry := map[string]any{"chart": "tiers/" + tier, "access": access, "domain": "k8s.example.org", "values": map[string]any{}}
				for _, from := range []any{tiers[tier].(map[string]any)["values"], values} {
					m, _ := from.(map[string]any)
					for k, v := range m {
						entry["values"].(map[string]any)[k] = v
					}
				}
				text, err := yaml.Marshal(map[string]any{"by-name": entry})
				if err != nil {
					t.Fatal(err)
				}
				tree := tiersExample(t,
					[3]string{"catalog/catalog.yaml", "  tiers:\n", "  tiers:\n    " + strings.ReplaceAll(strings.TrimSuffix(string(text), "\n"), "\n", "\n    ") + "\n"},
					[3]string{"tenants/dynamo-prod/named.yaml", "", "apiVersion: copyhold.dev/v1alpha1\nkind: ClusterRequest\nmetadata: {name: named}\nspec:\n  tier: by-name\n  version: v1.34.1\n  publicNames: [named.example.org]\n" + variables[tier]})
				in, set, found, err := render.Render(tree, "tenants/dynamo-prod/named.yaml")
				if err != nil {
					t.Fatal(err)
				}
				if tier == "metal-stack" || tier == "kamaji" && access == "gateway" {
					if len(set.Objects()) > 0 || !slices.ContainsFunc(found, func(f diag.Finding) bool { return f.Name == "catalog/bad-value" || f.Name == "catalog/unknown-field" }) {
						t.Errorf("it is taken: %s", found)
					}
					return
				}
				if found.Failed() {
					t.Fatal(found)
				}
				want, _, err := render.Want(tree, in)
				if err != nil {
					t.Fatal(err)
				}
				if i := slices.IndexFunc(want.Clusters, func(w ledger.Wanted) bool { return w.Name == "named" }); i < 0 || len(want.Clusters[i].Claims) > 0 {
					t.Errorf("the ledger is to give it an address: %+v", want.Clusters)
				}
				const name = "named.dynamo-prod.k8s.example.org"
				seen := false
				for _, o := range set.Objects() {
					problems, err := schemas.Validate(o, nil)
					if err != nil || len(problems) > 0 {
						t.Errorf("%s: %v %v", o.GetKind(), err, problems)
					}
					switch o.GetKind() {
					case "KamajiControlPlane":
						network := fieldAt(t, o, "spec", "network").(map[string]any)
						host := fieldAt(t, o, "spec", "network", access, "hostname")
						seen = network["serviceType"] == "ClusterIP" && network["serviceAddress"] == nil && network["serviceAnnotations"] == nil && host == name // which the provider adds to the names
					case "TenantControlPlane":
						service := fieldAt(t, o, "spec", "controlPlane", "service").(map[string]any)
						profile := fieldAt(t, o, "spec", "networkProfile").(map[string]any)
						seen = service["serviceType"] == "ClusterIP" && service["additionalMetadata"] == nil && profile["address"] == nil &&
							fieldAt(t, o, "spec", "controlPlane", "ingress", "hostname") == name && topology.Equal(profile["certSANs"], []any{"named.example.org", name})
					}
				}
				if !seen {
					t.Errorf("no control plane is reached by %s alone", name)
				}
			})
		}
	}
}
