package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/netip"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/strict"
)

func (a *app) ledgerCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "ledger",
		Short: "look at addresses that are given out, and compare them with what runs",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var output, today, services string
	list := &cobra.Command{
		Use:     "list",
		Short:   "list every address that has a file",
		Example: "  copyhold ledger list\n  copyhold ledger list -o json",
		Args:    exactly(0, "none"),
		RunE:    func(*cobra.Command, []string) error { return a.ledgerList(output, "") },
	}
	show := &cobra.Command{
		Use:     "show ADDRESS",
		Short:   "show who has an address",
		Example: "  copyhold ledger show 172.21.208.100",
		Args:    exactly(1, "one: an address"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.ledgerList(output, args[0]) },
	}
	pools := &cobra.Command{
		Use:     "pools",
		Short:   "show how full the address pools are, the fullest first",
		Example: "  copyhold ledger pools",
		Args:    exactly(0, "none"),
		RunE:    func(*cobra.Command, []string) error { return a.ledgerPools(output, today) },
	}
	verify := &cobra.Command{
		Use:   "verify --services FILE",
		Short: "compare the ledger with the control planes' Services that run",
		Long: `verify reads Services and says which address moved, which is in no record, which record has no Service, and which lies outside its
address pool. FILE is - for standard input.`,
		Example: "  kubectl get svc -A -l kamaji.clastix.io/component=service -o yaml | copyhold ledger verify --services -",
		Args:    exactly(0, "none"),
		RunE:    func(*cobra.Command, []string) error { return a.ledgerVerify(services) },
	}
	adopt := &cobra.Command{
		Use:   "adopt --services FILE",
		Short: "record the addresses of control planes that run already",
		Long: `adopt gives each cluster that is asked for and has no address in the ledger the one that its Service has. It changes no address
that is on record; what differs is for ledger verify to say. FILE is - for standard input.`,
		Example: "  kubectl get svc -A -l kamaji.clastix.io/component=service -o yaml | copyhold ledger adopt --services -",
		Args:    exactly(0, "none"),
		RunE:    func(*cobra.Command, []string) error { return a.ledgerAdopt(services, today) },
	}
	for _, sub := range []*cobra.Command{list, show, pools} {
		sub.Flags().StringVarP(&output, "output", "o", "table", "table, json or yaml")
	}
	for _, sub := range []*cobra.Command{pools, adopt} {
		sub.Flags().StringVar(&today, "today", "", "the day to reckon quarantine by, as 2026-12-01 (default: today, UTC)")
	}
	for _, sub := range []*cobra.Command{verify, adopt} {
		sub.Flags().StringVar(&services, "services", "", "file with the Services, as kubectl prints them with -o yaml; - for standard input")
	}
	c.AddCommand(list, show, pools, verify, adopt)
	return c
}

// books is a repository with all its requests and its ledger.
type books struct {
	tree   *tree
	in     *render.Input
	want   render.Wanted
	ledger *ledger.Ledger
	unlock func()
}

func (b *books) close() {
	b.unlock()
	b.tree.close()
}

// openBooks reads everything; to write, it first keeps other writers away. It fails on any error in the files: what is left out of a
// ledger looks free.
func (a *app) openBooks(write bool) (*books, error) {
	t, _, err := a.repository(nil)
	if err != nil {
		return nil, err
	}
	b := &books{tree: t, unlock: func() {}}
	if err := a.readBooks(b, write); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (a *app) readBooks(b *books, write bool) error {
	if write {
		in, found, err := render.Offer(b.tree)
		if err != nil || in == nil {
			return errors.Join(err, a.print(found))
		}
		if b.unlock, err = lockLedger(b.tree, in.Folders.Ledger); err != nil {
			b.unlock = func() {}
			return err
		}
	}
	in, found, err := render.Load(b.tree, ".")
	if err != nil {
		return err
	}
	if in == nil || in.Catalog == nil || found.Failed() {
		return orFound(a.print(found))
	}
	want, more, err := render.Want(b.tree, in)
	if found.Add(more...); err != nil {
		return err
	}
	l, more, err := in.Ledger(b.tree)
	if found.Add(more...); err != nil {
		return err
	}
	b.in, b.want, b.ledger = in, want, l
	return a.print(found)
}

// carry writes what a plan says, and says it.
func (a *app) carry(b *books, plan ledger.Plan, found diag.List) error {
	if err := a.print(found); err != nil {
		return err
	}
	if err := carryOut(b.tree, b.in.Folders.Ledger, plan.Writes); err != nil {
		return err
	}
	return a.tell(plan, false)
}

// orFound makes sure that a command stops where there is nothing to go on with.
func orFound(err error) error {
	if err == nil {
		return errFound
	}
	return err
}

type lockRow struct {
	Address string `json:"address"`
	Pool    string `json:"pool"`
	State   string `json:"state"`
	Holder  string `json:"holder"`
	Until   string `json:"until,omitempty"`
	File    string `json:"file"`
}

func (a *app) ledgerList(output, only string) error {
	var want netip.Addr
	if only != "" {
		var err error
		if want, err = netip.ParseAddr(only); err != nil {
			return usageError{fmt.Errorf("%q, want an IP address", only), "copyhold ledger show 172.21.208.100"}
		}
	}
	b, err := a.openBooks(false)
	if err != nil {
		return err
	}
	defer b.close()
	rows := []lockRow{}
	for _, k := range b.ledger.AllLocks() {
		if only != "" && k.Address != want {
			continue
		}
		state := "held"
		if k.Released() {
			state = "released"
		}
		rows = append(rows, lockRow{k.Address.String(), k.Pool, state, k.Holder, string(k.Until), b.ledger.LockFile(k.Pool, k.Address)})
	}
	if only != "" && len(rows) == 0 {
		return a.print(diag.List{diag.Errorf(diag.Pos{}, "ledger/no-address", "nobody has %s, and nobody had it", want)})
	}
	return a.table(output, rows, func(w io.Writer) {
		fmt.Fprintln(w, "ADDRESS\tPOOL\tSTATE\tHOLDER\tUNTIL")
		for _, r := range rows {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Address, r.Pool, r.State, r.Holder, dash(r.Until))
		}
		if only != "" {
			for _, r := range rows {
				fmt.Fprintf(w, "\nhistory: git log -- %s\n", r.File)
			}
		}
	})
}

type poolRow struct {
	Pool       string `json:"pool"`
	Size       string `json:"size"`
	Used       string `json:"used"`
	Reserved   string `json:"reserved"`
	Quarantine string `json:"quarantine"`
	Free       string `json:"free"`
	percent    int64
}

func (a *app) ledgerPools(output, today string) error {
	now, err := day(today)
	if err != nil {
		return err
	}
	b, err := a.openBooks(false)
	if err != nil {
		return err
	}
	defer b.close()
	rows := []poolRow{}
	for _, u := range b.ledger.Usage(b.want.Pools, date(now)) {
		percent := new(big.Int)
		if u.Size.Sign() > 0 {
			percent.Sub(u.Size, u.Free).Mul(percent, big.NewInt(100)).Div(percent, u.Size)
		}
		rows = append(rows, poolRow{u.Pool, u.Size.String(), fmt.Sprint(u.Used), u.Reserved.String(), fmt.Sprint(u.Quarantine), u.Free.String(), percent.Int64()})
	}
	slices.SortStableFunc(rows, func(x, y poolRow) int { return int(y.percent - x.percent) })
	return a.table(output, rows, func(w io.Writer) {
		fmt.Fprintln(w, "POOL\tSIZE\tUSED\tRESERVED\tQUARANTINE\tFREE\tFULL")
		for _, r := range rows {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d%%\n", r.Pool, r.Size, r.Used, r.Reserved, r.Quarantine, r.Free, r.percent)
		}
	})
}

// table writes rows in the format that was asked for.
func (a *app) table(output string, rows any, print func(io.Writer)) error {
	var data []byte
	var err error
	switch output {
	case "table":
		w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
		print(w)
		return w.Flush()
	case "json":
		data, err = json.MarshalIndent(rows, "", "  ")
		data = append(data, '\n')
	case "yaml":
		data, err = strict.Marshal(rows)
	default:
		return usageError{fmt.Errorf("output %q, want table, json or yaml", output), ""}
	}
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(data)
	return err
}

func (a *app) ledgerVerify(file string) error {
	services, err := a.services(file)
	if err != nil {
		return err
	}
	b, err := a.openBooks(false)
	if err != nil {
		return err
	}
	defer b.close()
	found := b.ledger.Verify(services, b.want.Pools)
	err = a.print(found)
	a.say("%s compared with %s: %s", count(len(services), "service"), count(len(b.ledger.Records), "record"), count(len(found), "difference"))
	return err
}

func (a *app) ledgerAdopt(file, today string) error {
	now, err := day(today)
	if err != nil {
		return err
	}
	services, err := a.services(file)
	if err != nil {
		return err
	}
	b, err := a.openBooks(true)
	if err != nil {
		return err
	}
	defer b.close()
	wanted, doubtful := adoptable(b, services)
	if err := a.print(doubtful); err != nil {
		return err
	}
	plan, found := b.ledger.Plan(ledger.Planning{Wanted: wanted, Pools: b.want.Pools, Today: date(now), Until: date(now)})
	return a.carry(b, plan, found)
}

// adoptable are the clusters that have no address on record and a Service that has one, with that address as their pin. What leaves a
// doubt about which address a cluster has is found, and nothing is to be adopted then.
func adoptable(b *books, services []ledger.Service) ([]ledger.Wanted, diag.List) {
	var found diag.List
	var holders []string
	for _, w := range b.want.Clusters {
		holders = append(holders, w.Namespace+"/"+w.Name)
	}
	has := map[string]netip.Addr{}
	of := ledger.Match(services, holders)
	for i, s := range services {
		h, ok := of[i]
		if !ok || s.Address == "" {
			continue
		}
		address, err := netip.ParseAddr(s.Address)
		switch {
		case err != nil:
			found.Add(diag.Errorf(diag.Pos{}, "service/unreadable", "service %s/%s of %s has address %q, want an IP address", s.Namespace, s.Name, h, s.Address))
		case has[h].IsValid() && has[h] != address:
			found.Add(diag.Errorf(diag.Pos{}, "service/ambiguous", "two services look like that of %s, with %s and %s", h, has[h], address).
				Hintf("leave the one that is not out of the list, or label both with cluster.x-k8s.io/cluster-name"))
		default:
			has[h] = address
		}
	}
	var out []ledger.Wanted
	for _, w := range b.want.Clusters {
		holder := w.Namespace + "/" + w.Name
		address, ok := has[holder]
		if r := b.ledger.Records[holder]; !ok || r != nil && r.Released == "" && r.Address != "" {
			continue
		}
		w.Claims = slices.Clone(w.Claims)
		for i := range w.Claims {
			if w.Claims[i].Field != "address" {
				continue
			}
			if pin := w.Claims[i].Pin; pin.IsValid() && pin != address {
				found.Add(diag.Errorf(w.Claims[i].At, "service/moved", "%s pins %s, and its service has %s", holder, pin, address).
					Hintf("write the address that runs, or remove the field"))
			}
			w.Claims[i].Pin = address
		}
		out = append(out, w)
	}
	return out, found
}

// services reads Services as kubectl prints them.
func (a *app) services(file string) ([]ledger.Service, error) {
	if file == "" {
		return nil, usageError{fmt.Errorf("no --services"), "kubectl get svc -A -l kamaji.clastix.io/component=service -o yaml | copyhold ledger verify --services -"}
	}
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(a.stdin)
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("reading services: %w", err)
	}
	objects, err := manifest.Parse(data)
	if err != nil {
		return nil, a.print(diag.List{diag.Errorf(diag.Pos{File: file}, "service/unreadable", "%v", err)})
	}
	var out []ledger.Service
	for _, o := range objects {
		if o.GetKind() != "Service" {
			return nil, a.print(diag.List{diag.Errorf(diag.Pos{File: file}, "service/unreadable", "%s is not a Service", manifest.IDOf(o))})
		}
		out = append(out, serviceOf(o))
	}
	if len(out) == 0 {
		return nil, a.print(diag.List{diag.Errorf(diag.Pos{File: file}, "service/none", "there is no Service in it: the comparison would say that every control plane is gone")})
	}
	return out, nil
}

// serviceOf reads what Kamaji and the load balancer write into a control plane's Service.
func serviceOf(o *manifest.Object) ledger.Service {
	s := ledger.Service{Namespace: o.GetNamespace(), Name: o.GetName(), ControlPlane: o.GetLabels()["kamaji.clastix.io/name"], Cluster: o.GetLabels()["cluster.x-k8s.io/cluster-name"]}
	if s.ControlPlane == "" {
		s.ControlPlane = s.Name
	}
	ingress, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
	for _, i := range ingress {
		if m, ok := i.(map[string]any); ok && s.Address == "" {
			s.Address, _ = m["ip"].(string)
		}
	}
	if a, err := netip.ParseAddr(strings.TrimSpace(s.Address)); err == nil {
		s.Address = a.Unmap().String()
	}
	return s
}
