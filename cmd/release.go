package cmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
)

func (a *app) releaseCommand() *cobra.Command {
	var now bool
	var today string
	c := &cobra.Command{
		Use:   "release NAMESPACE/NAME",
		Short: "give back the addresses of a cluster that is gone",
		Long: `release marks the addresses of a cluster released, as allocate does for every cluster whose request is gone. They stay in quarantine
for as many days as the catalog says, since kubeconfigs with them may still be about. The files stay: they are the history.`,
		Example: `  copyhold release photon-prod/solar
  copyhold release photon-prod/solar --now`,
		Args: exactly(1, "one: NAMESPACE/NAME"),
		RunE: func(_ *cobra.Command, args []string) error { return a.release(args[0], now, today) },
	}
	c.Flags().BoolVar(&now, "now", false, "no quarantine: the addresses may go to others today")
	c.Flags().StringVar(&today, "today", "", "the day to reckon by, as 2026-12-01 (default: today, UTC)")
	return c
}

func (a *app) release(holder string, now bool, today string) error {
	d, err := day(today)
	if err != nil {
		return err
	}
	if err := wantHolder(holder); err != nil {
		return err
	}
	b, err := a.openBooks(true)
	if err != nil {
		return err
	}
	defer b.close()
	for _, t := range b.in.Tenants {
		for _, c := range t.Clusters {
			if c.String() == holder {
				return a.print(diag.List{diag.Errorf(c.At("metadata", "name"), "ledger/in-use", "%s is still asked for", holder).
					Hintf("remove its request first; the cluster goes with it")})
			}
		}
	}
	until := date(d.AddDate(0, 0, b.in.Catalog.Quarantine()))
	if now {
		until = date(d)
	}
	plan, found := b.ledger.Release(holder, date(d), until)
	return a.carry(b, plan, found)
}

func wantHolder(s string) error {
	if ns, name, ok := strings.Cut(s, "/"); !ok || ns == "" || name == "" || strings.Contains(name, "/") {
		return usageError{fmt.Errorf("%q, want NAMESPACE/NAME", s), ""}
	}
	return nil
}

func (a *app) defaultsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "defaults",
		Short: "look at the variable defaults a cluster was admitted with, or move on to today's",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	show := &cobra.Command{
		Use:     "show NAMESPACE/NAME",
		Short:   "compare a cluster's recorded defaults with today's",
		Example: "  copyhold defaults show photon-prod/solar",
		Args:    exactly(1, "one: NAMESPACE/NAME"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.defaults(args[0], false) },
	}
	accept := &cobra.Command{
		Use:   "accept NAMESPACE/NAME",
		Short: "record today's defaults for a cluster",
		Long: `accept moves a cluster on to the defaults that its class has today. What changes in the rendered Cluster can roll its workers:
compare the output of copyhold render before and after.`,
		Example: "  copyhold defaults accept photon-prod/solar",
		Args:    exactly(1, "one: NAMESPACE/NAME"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.defaults(args[0], true) },
	}
	c.AddCommand(show, accept)
	return c
}

func (a *app) defaults(holder string, accept bool) error {
	if err := wantHolder(holder); err != nil {
		return err
	}
	b, err := a.openBooks(accept)
	if err != nil {
		return err
	}
	defer b.close()
	for _, w := range b.want.Clusters {
		if w.Namespace+"/"+w.Name != holder {
			continue
		}
		r := b.ledger.Records[holder]
		if r == nil || r.Released != "" {
			return a.print(diag.List{diag.Errorf(w.At, "ledger/no-record", "%s has no record yet: it will be admitted with today's defaults", holder).
				Hintf("copyhold allocate records them")})
		}
		if !accept {
			return a.showDefaults(r, w)
		}
		return a.carry(b, b.ledger.AcceptDefaults(w), nil)
	}
	return a.print(diag.List{diag.Errorf(diag.Pos{}, "ledger/gone", "nobody asks for %s", holder)})
}

func (a *app) showDefaults(r *ledger.Record, w ledger.Wanted) error {
	rows := ledger.CompareDefaults(r, w)
	return a.table("table", rows, func(out io.Writer) {
		fmt.Fprintln(out, "VARIABLE\tRECORDED\tTODAY\t")
		for _, d := range rows {
			mark := ""
			if !d.Same {
				mark = "differs"
			}
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", d.Place, d.Recorded, d.Today, mark)
		}
	})
}
