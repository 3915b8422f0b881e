package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"golang.org/x/mod/semver"
	"k8s.io/apimachinery/pkg/util/validation"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/request"
	"copyhold.dev/copyhold/render/strict"
)

type newCluster struct {
	Namespace, Name, Tier, Version, Subnet, Address string

	NoWorkers, NoSubnet bool     // the tier takes none
	Needs               []string // variables that the tier needs and has no default for
}

func (a *app) newCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "new",
		Short: "write a new request",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var n newCluster
	cluster := &cobra.Command{
		Use:   "cluster NAMESPACE/NAME",
		Short: "write a request for a cluster",
		Long: `cluster writes tenants/NAMESPACE/NAME.yaml. copyhold allocate then gives it an address.

The tier is the only one on offer unless --tier says otherwise, the version the newest on offer, the subnet the only one the
tenant has asked for.`,
		Example: `  copyhold new cluster photon-prod/solar --tier kubeadm --subnet production`,
		Args:    exactly(1, "one: NAMESPACE/NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			var ok bool
			if n.Namespace, n.Name, ok = strings.Cut(args[0], "/"); !ok || n.Namespace == "" || n.Name == "" || strings.Contains(n.Name, "/") {
				return usageError{fmt.Errorf("%q, want NAMESPACE/NAME", args[0]), c.CommandPath() + " photon-prod/solar"}
			}
			return a.newCluster(n)
		},
	}
	cluster.Flags().StringVar(&n.Tier, "tier", "", "tier of the cluster")
	cluster.Flags().StringVar(&n.Version, "version", "", "Kubernetes version, as in v1.34.1")
	cluster.Flags().StringVar(&n.Subnet, "subnet", "", "name of the tenant's subnet")
	cluster.Flags().StringVar(&n.Address, "address", "", "address of the control plane")
	c.AddCommand(cluster)
	return c
}

func (a *app) newCluster(n newCluster) error {
	for _, v := range []string{n.Namespace, n.Subnet} {
		if v != "" && len(validation.IsDNS1123Label(v)) > 0 {
			return usageError{fmt.Errorf("%q, want lower-case letters, digits and -", v), ""}
		}
	}
	t, _, err := a.repository(nil)
	if err != nil {
		return err
	}
	defer t.close()
	in, found, err := render.Load(t, ".")
	if err != nil {
		return err
	}
	if in == nil || in.Catalog == nil {
		return a.print(found)
	}
	if err := n.fill(in); err != nil {
		return err
	}
	chart, found, err := render.Chart(t, in, n.Tier)
	if err != nil {
		return err
	}
	if found.Failed() {
		return a.print(found)
	}
	n.suit(chart)
	file := path.Join(in.Folders.Tenants, n.Namespace, n.Name+".yaml")
	var b bytes.Buffer
	if err := clusterTemplate.Execute(&b, n); err != nil {
		return err
	}
	r, bad := request.Parse(file, b.Bytes())
	if err := a.print(bad); err != nil || len(r.Clusters) != 1 {
		return err
	}
	for _, tenant := range in.Tenants {
		for _, c := range tenant.Clusters {
			if c.String() == r.Clusters[0].String() {
				return a.print(diag.List{diag.Errorf(c.At("metadata", "name"), "request/duplicate", "cluster %q is asked for here already", c)})
			}
		}
	}
	if err := writeNew(t.root, file, b.Bytes()); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return a.print(diag.List{diag.Errorf(diag.Pos{File: file}, "request/exists", "the file is there already, nothing is written")})
		}
		return fmt.Errorf("writing the request: %w", err)
	}
	a.say("wrote %s", file)
	a.say("next: copyhold allocate, then copyhold check; commit the request and the ledger together")
	return nil
}

// fill chooses what was left open. What cannot be chosen for the tenant is left for the check to ask for.
func (n *newCluster) fill(in *render.Input) error {
	var on []string
	for _, name := range catalog.Sorted(in.Catalog.Tiers) {
		if in.Catalog.Offered(name) {
			on = append(on, name)
		}
	}
	switch {
	case n.Tier != "" && !slices.Contains(on, n.Tier):
		return usageError{fmt.Errorf("tier %q%s", n.Tier, diag.OneOf(on)), "copyhold catalog show"}
	case n.Tier == "" && len(on) == 1:
		n.Tier = on[0]
	case n.Tier == "":
		return usageError{fmt.Errorf("there is more than one tier: %s", strings.Join(on, ", ")), "choose one with --tier"}
	}
	versions := slices.Clone(in.Catalog.Versions)
	semver.Sort(versions)
	switch {
	case n.Version == "":
		n.Version = versions[len(versions)-1]
	case !slices.Contains(versions, n.Version):
		return usageError{fmt.Errorf("version %q%s", n.Version, diag.OneOf(versions)), "copyhold catalog show"}
	}
	for _, t := range in.Tenants {
		if t.Namespace == n.Namespace && n.Subnet == "" && len(t.Subnets) == 1 {
			n.Subnet = t.Subnets[0].Name
		}
	}
	return nil
}

// suit leaves out what a tier with a chart has no use for, and notes what it needs.
func (n *newCluster) suit(t *catalog.TierChart) {
	if t == nil {
		return
	}
	n.NoWorkers, n.NoSubnet = !t.Takes("workers"), !t.Takes("subnet")
	if n.NoSubnet {
		n.Subnet = ""
	}
	for _, o := range t.Options {
		if o.Required && o.Default == nil && o.Type != "object" {
			n.Needs = append(n.Needs, o.Path)
		}
	}
}

// yamlScalar is a text as YAML has it: in quotes where it would be read as something else.
func yamlScalar(s string) (string, error) {
	data, err := strict.Marshal(s)
	return strings.TrimSpace(string(data)), err
}

var clusterTemplate = template.Must(template.New("").Funcs(template.FuncMap{"yaml": yamlScalar}).Parse(`apiVersion: copyhold.dev/v1alpha1
kind: ClusterRequest
metadata:
  name: {{yaml .Name}}
spec:
  tier: {{.Tier}}
  version: {{.Version}}
{{- if .Subnet}}
  subnet: {{yaml .Subnet}}
{{- else if not .NoSubnet}}
  # subnet: name of the subnet the workers stand in
{{- end}}
{{- if .Address}}
  address: {{printf "%q" .Address}}
{{- end}}
{{- range .Needs}}
  # variables.{{.}} is needed: copyhold catalog show {{$.Tier}}
{{- end}}
{{- if not .NoWorkers}}
  workers:
    md-0:
      replicas: 1
{{- end}}
`))
