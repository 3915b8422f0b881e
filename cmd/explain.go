package cmd

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/impact"
)

func (a *app) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain [TIER[.FIELD]]",
		Short: "what a field of a request is, and what changing it does to a running cluster",
		Long: `explain lists the tiers; with TIER, the fields of a request and the variables of the tier's ClusterClass, with type, default and bounds,
and what a change does to a cluster that runs; with TIER.FIELD, one of them with the values that were tried.

What a change does is found out by trying values on Cluster API's engine with the classes of this repository.`,
		Example: `  copyhold explain kubeadm
  copyhold explain kubeadm.machineSize
  copyhold explain kubeadm.workers.POOL.failureDomain`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("%d arguments, want at most one: a tier, or a field of it", len(args)), c.CommandPath() + " --help"}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.explain(args) },
	}
}

func (a *app) explain(args []string) error {
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
	if len(args) == 0 {
		w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "TIER\tDESCRIPTION")
		for _, name := range catalog.Sorted(in.Catalog.Tiers) {
			fmt.Fprintf(w, "%s\t%s\n", name, dash(in.Catalog.Tiers[name].Description))
		}
		return w.Flush()
	}
	tier, field, _ := strings.Cut(args[0], ".")
	if _, ok := in.Catalog.Tiers[tier]; !ok {
		return usageError{fmt.Errorf("unknown tier %q%s", tier, diag.OneOf(catalog.Sorted(in.Catalog.Tiers))), "copyhold explain"}
	}
	var names []string
	prober := render.NewProber(t, in)
	effects, err := impact.Explain(prober, tier, func(f string) bool {
		names = append(names, f)
		return field == "" || f == field || strings.HasPrefix(f, field+".")
	})
	if err != nil {
		return err
	}
	if field == "" {
		w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "FIELD\tTYPE\tDEFAULT\tA CHANGE ON A RUNNING CLUSTER")
		for _, e := range effects {
			kind, def := "-", "-"
			if v := e.Variable; v != nil {
				kind, def = v.Type, plainValue(v.Default)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.Field, kind, def, e.Outcome())
		}
		if err := w.Flush(); err != nil {
			return err
		}
		a.foretold(prober, tier)
		return nil
	}
	if len(effects) == 0 {
		near := diag.Nearest(field, names)
		hint := "copyhold explain " + tier
		if near != "" {
			hint = fmt.Sprintf("did you mean %s.%s? %s lists them", tier, near, hint)
		}
		return usageError{fmt.Errorf("tier %q has no field %q", tier, field), hint}
	}
	for _, e := range effects {
		a.explainOne(e)
	}
	a.foretold(prober, tier)
	return nil
}

// foretold says which class or chart the effects were tried on.
func (a *app) foretold(p *render.Prober, tier string) {
	if p.Input().Catalog.Tiers[tier].Chart != "" {
		chart := p.Chart(tier)
		fmt.Fprintln(a.stdout, impact.Foretold(chart.Key, chart.Digest))
		return
	}
	class := p.Class(tier)
	fmt.Fprintln(a.stdout, impact.Foretold(class.Key().String(), class.Digest()))
}

func (a *app) explainOne(e impact.Effect) {
	fmt.Fprintln(a.stdout, a.paint(bold, e.Field))
	if v := e.Variable; v != nil {
		words := []string{v.Type}
		if v.Required {
			words = append(words, "required")
		}
		if v.Default != nil {
			words = append(words, "default "+plainValue(v.Default))
		}
		if len(v.Choices) > 0 {
			words = append(words, "one of "+strings.Join(v.Choices, ", "))
		}
		if v.Bounds != "" {
			words = append(words, v.Bounds)
		}
		fmt.Fprintln(a.stdout, "    "+strings.Join(words, "; "))
		if v.Text != "" {
			fmt.Fprintln(a.stdout, "    "+strings.Join(strings.Fields(v.Text), " "))
		}
		if e.Fed != "" {
			fmt.Fprintln(a.stdout, "    fed by "+e.Fed+" of the request")
		}
	}
	fmt.Fprintln(a.stdout, "    on a running cluster: "+e.Outcome())
	for _, t := range e.Tries {
		when := ""
		if t.When != "" {
			when = ", when " + t.When
		}
		fmt.Fprintf(a.stdout, "    tried: %s -> %s%s: %s\n", impact.Value(t.From), impact.Value(t.To), when, t.Action)
		for _, d := range t.Differences {
			fmt.Fprintln(a.stdout, "        "+d.String())
		}
	}
}

func plainValue(v any) string {
	if v == nil {
		return "-"
	}
	return impact.Value(v)
}
