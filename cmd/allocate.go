package cmd

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
)

type allocation struct {
	dryRun bool
	move   bool
	today  string
}

func (a *app) allocateCommand() *cobra.Command {
	var o allocation
	c := &cobra.Command{
		Use:   "allocate [PATH...]",
		Short: "give clusters their addresses and record what they are admitted with",
		Long: `allocate writes the ledger: an address for each cluster that has none, the defaults of its class, and the release of what clusters
had whose requests are gone. PATH is the root or tenants' folders; without PATH it is the working folder.

Commit what it writes together with the request: the commit is the lock. Running it again changes nothing. After a merge conflict
in the ledger, take the folder as it is merged already and run it again:
  git add -A && git restore --source=origin/main --staged --worktree ledger && copyhold allocate`,
		Example: `  copyhold allocate
  copyhold allocate tenants/photon-prod --dry-run`,
		RunE: func(_ *cobra.Command, args []string) error { return a.allocate(args, o) },
	}
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "say what would be done and write nothing")
	c.Flags().BoolVar(&o.move, "move", false, "let a pinned address take a cluster away from the one it has; breaks kubeconfigs and certificates")
	c.Flags().StringVar(&o.today, "today", "", "the day to reckon quarantine by, as 2026-12-01 (default: today, UTC)")
	return c
}

func (a *app) allocate(args []string, o allocation) error {
	today, err := day(o.today)
	if err != nil {
		return err
	}
	t, paths, err := a.repository(args)
	if err != nil {
		return err
	}
	defer t.close()
	in, found, err := render.Load(t, paths...)
	if err != nil {
		return err
	}
	if in == nil || in.Catalog == nil || found.Failed() {
		return a.print(found)
	}
	unlock := func() {}
	if !o.dryRun {
		if unlock, err = lockLedger(t, in.Folders.Ledger); err != nil {
			return err
		}
	}
	defer unlock()
	want, more, err := render.Want(t, in)
	found.Add(more...)
	if err != nil {
		return err
	}
	l, more, err := in.Ledger(t)
	found.Add(more...)
	if err != nil {
		return err
	}
	if err := a.print(found); err != nil { // a request left out would look gone, a lock left out would look free
		return err
	}
	namespaces := want.Namespaces
	if in.Complete {
		namespaces = l.Namespaces(namespaces)
		if live := l.Live(); len(want.Clusters) == 0 && len(live) > 0 && !o.dryRun {
			return a.print(diag.List{diag.Errorf(diag.Pos{File: in.Folders.Tenants}, "ledger/empty-fleet", "there is no request left, and the ledger has %s: nothing is released", count(len(live), "cluster")).
				Hintf("is the folder checked out? If the fleet is gone: copyhold release, cluster by cluster")})
		}
	}
	plan, found := l.Plan(ledger.Planning{
		Wanted: want.Clusters, Pools: want.Pools, Namespaces: namespaces,
		Today: date(today), Until: date(today.AddDate(0, 0, in.Catalog.Quarantine())), Move: o.move,
	})
	if err := a.print(found); err != nil {
		return err
	}
	found, err = recordRollouts(t, in, &plan)
	if err != nil {
		return err
	}
	if err := a.print(found); err != nil {
		return err
	}
	if !o.dryRun {
		if err := carryOut(t, in.Folders.Ledger, plan.Writes); err != nil {
			return err
		}
	}
	return a.tell(plan, o.dryRun)
}

// tell says what a plan did.
func (a *app) tell(plan ledger.Plan, dryRun bool) error {
	for _, w := range plan.Words {
		a.say("%s", w)
	}
	switch n := len(plan.Writes); {
	case n == 0:
		a.say("nothing to do")
	case dryRun:
		a.say("%s would be written", count(n, "file"))
	default:
		a.say("wrote %s: commit them with the requests", count(n, "file"))
	}
	return nil
}

// day is the day named, or today. UTC, so that two people on one branch reckon alike.
func day(text string) (time.Time, error) {
	if text == "" {
		return time.Now().UTC(), nil
	}
	d, err := time.Parse(time.DateOnly, text)
	if err != nil || d.Year() > 9000 { // with the quarantine, a year must still have four digits
		return d, usageError{fmt.Errorf("day %q, want one as 2026-12-01", text), ""}
	}
	return d, nil
}

func date(t time.Time) ledger.Date { return ledger.Date(t.Format(time.DateOnly)) }

// recordRollouts adds to a plan the rollout hashes of worker pools that have none recorded: they are new, so nothing of theirs is
// replaced. A hash that is recorded stays as it is; to change it is to accept a rollout, which is for ack. What is found keeps a new
// cluster from coming in.
func recordRollouts(t *tree, in *render.Input, plan *ledger.Plan) (diag.List, error) {
	f, err := in.Unrecorded(plan.Records).Fleet(t)
	if err != nil {
		return nil, err
	}
	if found := refused(f); found.Failed() {
		return found, nil
	}
	at := map[string]int{}
	for i, w := range plan.Writes {
		at[w.File] = i
	}
	for _, name := range catalog.Sorted(f.Clusters) {
		c := f.Clusters[name]
		if c.Hashes == nil { // it cannot be rendered: check says why, and the next run records it
			continue
		}
		r := *c.Record
		r.Rollouts = map[string]string{}
		for pool, hash := range c.Accepts {
			if accepted := c.Record.Rollouts[pool]; accepted != "" {
				hash = accepted
			}
			r.Rollouts[pool] = hash
		}
		if maps.Equal(r.Rollouts, c.Record.Rollouts) {
			continue
		}
		w, err := record(in, &r)
		if err != nil {
			return nil, err
		}
		if i, planned := at[w.File]; planned {
			plan.Writes[i] = w
			continue
		}
		plan.Writes = append(plan.Writes, w)
		plan.Words = append(plan.Words, name+": the rollout hashes of its worker pools are recorded")
	}
	return nil, nil
}

// refused is why new clusters must not come in: what check would say of them. That their rollouts are not accepted is no reason: it is
// about to be.
func refused(f *render.Fleet) diag.List {
	var found diag.List
	for _, name := range catalog.Sorted(f.Clusters) {
		c := f.Clusters[name]
		for _, x := range c.Found {
			if x.Severity == diag.Error && c.New() && !strings.HasPrefix(x.Name, "rollout/") {
				found.Add(x)
			}
		}
	}
	return found
}
