package cmd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/builtin"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/topology"
)

func (a *app) catalogCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "catalog",
		Short: "look at what the platform offers",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use:   "show [TIER]",
		Short: "list tiers, versions, address pools and classes, or the variables of a tier",
		Long: `show prints what the catalog offers. With TIER it prints the variables of the tier's ClusterClass: what a request may set under
spec.variables, with type, default and bounds, and the field of a request that feeds it, where there is one.`,
		Example: `  copyhold catalog show
  copyhold catalog show kubeadm`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("%d arguments, want at most one: a tier", len(args)), c.CommandPath() + " --help"}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.catalogShow(args) },
	}, a.catalogImagesCommand(), a.catalogVerifyCommand(), a.catalogAddCommand())
	return c
}

func (a *app) catalogShow(args []string) error {
	t, _, err := a.repository(nil)
	if err != nil {
		return err
	}
	defer t.close()
	in, found, err := render.Offer(t)
	if err != nil {
		return err
	}
	if in == nil || in.Catalog == nil {
		return a.print(found)
	}
	c := in.Catalog
	if len(args) == 1 {
		return a.showTier(t, in, args[0])
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TIER\tCLASS\tON OFFER\tADDRESS POOL\tDESCRIPTION")
	for _, name := range catalog.Sorted(c.Tiers) {
		tier := c.Tiers[name]
		shape := c.Classes[tier.From].Namespace + "/" + tier.Class
		if tier.Chart != "" {
			shape = c.Dir(tier.Chart)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", name, shape, yes(c.Offered(name)), dash(tier.AddressPool), dash(tier.Description))
	}
	fmt.Fprintln(w, "\nVERSION")
	for _, v := range c.Versions {
		fmt.Fprintln(w, v)
	}
	fmt.Fprintln(w, "\nADDRESS POOL\tNAMESPACE\tMODE\tADDRESSES\tRESERVED")
	for _, name := range catalog.Sorted(c.AddressPools) {
		p := c.AddressPools[name]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", name, p.Namespace, dash(string(p.Mode)), strings.Join(p.Addresses, " "), dash(strings.Join(p.Reserved, " ")))
	}
	fmt.Fprintln(w, "\nCLASS SOURCE\tFOLDER\tDIGEST")
	for _, name := range catalog.Sorted(c.Classes) {
		s := c.Classes[name]
		digest, err := c.Digest(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", name, c.Dir(s.Chart+s.Manifests), digest)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return a.chartTiers(c)
}

// chartTiers prints the digests of the tiers' charts, and which built-in tiers the catalog does not have.
func (a *app) chartTiers(c *catalog.Catalog) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for i, name := range slices.DeleteFunc(catalog.Sorted(c.Tiers), func(n string) bool { return c.Tiers[n].Chart == "" }) {
		if i == 0 {
			fmt.Fprintln(w, "\nCHART OF\tFOLDER\tDIGEST")
		}
		digest, err := c.TierDigest(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", name, c.Dir(c.Tiers[name].Chart), digest)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	missing := slices.DeleteFunc(builtin.Tiers(), func(name string) bool { _, ok := c.Tiers[name]; return ok })
	if len(missing) > 0 {
		a.say("built-in tiers that this catalog has not: %s; copyhold catalog add TIER writes one", strings.Join(missing, ", "))
	}
	return nil
}

func (a *app) showTier(t *tree, in *render.Input, name string) error {
	if _, ok := in.Catalog.Tiers[name]; !ok {
		return usageError{fmt.Errorf("unknown tier %q%s", name, diag.OneOf(catalog.Sorted(in.Catalog.Tiers))), "copyhold catalog show"}
	}
	if in.Catalog.Tiers[name].Chart != "" {
		return a.showChartTier(t, in, name)
	}
	class, found, err := render.Class(t, in, name)
	if err != nil {
		return err
	}
	if err := a.print(found); err != nil || class == nil {
		return orFound(err)
	}
	fmt.Fprintf(a.stdout, "tier %s: ClusterClass %s\ndigest %s\n\n", name, class.Key(), class.Digest())
	return a.variables(in.Catalog.Classes[in.Catalog.Tiers[name].From], class.Variables())
}

// showChartTier prints what a request may set of a tier that has a chart.
func (a *app) showChartTier(t *tree, in *render.Input, name string) error {
	chart, found, err := render.Chart(t, in, name)
	if err != nil {
		return err
	}
	if err := a.print(found); err != nil || chart == nil {
		return orFound(err)
	}
	var takes []string
	for _, f := range []string{"subnet", "serverAddress", "publicNames", "controlPlane", "clusterNetwork", "workers"} {
		if chart.Takes(f) {
			takes = append(takes, f)
		}
	}
	fmt.Fprintf(a.stdout, "tier %s: chart %s\ndigest %s\ntakes %s\n\n", name, chart.Folder, chart.Digest, strings.Join(takes, ", "))
	return a.variables(catalog.ClassSource{Fields: chart.Fields()}, render.Variables(chart))
}

// variables prints a table of variables, and which field of a request feeds each.
func (a *app) variables(source catalog.ClassSource, all []topology.Variable) error {
	fields := map[string]string{}
	for _, f := range catalog.Sorted(catalog.DefaultFields) {
		fields[strings.Join(source.Variable(f), ".")] = fieldPath(f)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VARIABLE\tTYPE\tDEFAULT\tVALUES\tREQUEST FIELD")
	for _, v := range all {
		field := fields[v.Path]
		if v.Required {
			field = strings.TrimSpace(field + " (required)")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", v.Path, v.Type, defaultText(v), dash(values(v)), dash(field))
	}
	return w.Flush()
}

// fieldPath is a request field as a tenant writes it.
func fieldPath(f string) string {
	switch f {
	case "dataStore":
		return "controlPlane.dataStore"
	case "apiServer", "controllerManager", "scheduler":
		return "controlPlane.resources." + f
	case "size":
		return "workers.POOL.size"
	case "serviceType", "machineSpecs", "storageClass", "nodeSelector", "nodePort":
		return "" // only under variables
	}
	return f
}

func values(v topology.Variable) string {
	if len(v.Choices) > 0 {
		return strings.Join(v.Choices, ", ")
	}
	return v.Bounds
}

func defaultText(v topology.Variable) string {
	if v.Default == nil {
		return "-"
	}
	if s, ok := v.Default.(string); ok && s != "" {
		return s
	}
	j, err := json.Marshal(v.Default)
	if err != nil {
		return "-"
	}
	return string(j)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
