package cmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
)

type acknowledgement struct {
	reason string
	dryRun bool
}

func (a *app) ackCommand() *cobra.Command {
	var o acknowledgement
	c := &cobra.Command{
		Use:   "ack [PATH...|NAMESPACE/NAME...]",
		Short: "accept the rollouts that the working tree stands for",
		Long: `ack writes the rollout hashes of the working tree into the ledger: the replacement of those machines is accepted, and the pull request
shows so, a line for each worker pool. PATH is what render takes; NAMESPACE/NAME is one cluster. Without either it is the working
folder. copyhold diff says beforehand what is accepted.

Commit what it writes together with the change. Where the catalog's policy is acknowledge, nothing is rendered without it.`,
		Example: `  copyhold ack photon-prod/solar --reason "bigger machines for the spring sale"
  copyhold ack tenants/photon-prod`,
		RunE: func(_ *cobra.Command, args []string) error { return a.ack(args, o) },
	}
	c.Flags().StringVar(&o.reason, "reason", "", "why, to be kept in the ledger")
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "say what would be accepted and write nothing")
	return c
}

func (a *app) ack(args []string, o acknowledgement) error {
	t, paths, only, err := a.chosen(args)
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
	if !o.dryRun {
		unlock, err := lockLedger(t, in.Folders.Ledger)
		if err != nil {
			return err
		}
		defer unlock()
	}
	f, err := in.Fleet(t)
	if err != nil {
		return err
	}
	if err := a.print(acceptable(f.Found)); err != nil {
		return err
	}
	for _, name := range only {
		if f.Clusters[name] == nil {
			return a.print(diag.List{diag.Errorf(diag.Pos{}, "path/missing", "there is no request for cluster %s", name)})
		}
	}
	var writes []ledger.Write
	for _, name := range catalog.Sorted(f.Clusters) {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		r, words := accepted(f.Clusters[name], o.reason)
		if r == nil {
			for _, w := range words {
				a.say("%s", w)
			}
			continue
		}
		w, err := record(in, r)
		if err != nil {
			return err
		}
		writes = append(writes, w)
		for _, w := range words {
			a.say("%s", w)
		}
	}
	switch {
	case len(writes) == 0:
		a.say("nothing to accept")
		return nil
	case o.dryRun:
		a.say("%s would be written", count(len(writes), "file"))
		return nil
	}
	if err := carryOut(t, in.Folders.Ledger, writes); err != nil {
		return err
	}
	a.say("wrote %s: commit them with the change", count(len(writes), "file"))
	return nil
}

// chosen tells clusters named namespace/name from paths.
func (a *app) chosen(args []string) (*tree, []string, []string, error) {
	t, paths, err := a.repository(args)
	if err == nil {
		ok := true
		for _, p := range paths {
			if _, err := t.Stat(p); err != nil && p != "." {
				ok = false
			}
		}
		if ok {
			return t, paths, nil, nil
		}
		t.close()
	}
	t, _, err = a.repository(nil)
	if err != nil {
		return nil, nil, nil, err
	}
	in, found, err := render.Offer(t)
	if err != nil || in == nil {
		t.close()
		if err == nil {
			err = a.print(found)
		}
		return nil, nil, nil, err
	}
	var only []string
	paths = nil
	for _, arg := range args {
		namespace, name, ok := strings.Cut(arg, "/")
		if strings.HasPrefix(arg, in.Folders.Tenants+"/") {
			t.close()
			return nil, nil, nil, a.print(diag.List{diag.Errorf(diag.Pos{File: arg}, "path/missing", "there is no such file or folder")})
		}
		if !ok || strings.Contains(name, "/") || namespace == "" || name == "" {
			t.close()
			return nil, nil, nil, usageError{fmt.Errorf("%q is neither a path nor a cluster's NAMESPACE/NAME", arg), "copyhold ack --help"}
		}
		only = append(only, arg)
		paths = append(paths, in.Folders.Tenants+"/"+namespace)
	}
	return t, paths, only, nil
}

// acceptable leaves out what an acknowledgement is there to mend.
func acceptable(found diag.List) diag.List {
	return slices.DeleteFunc(slices.Clone(found), func(f diag.Finding) bool { return strings.HasPrefix(f.Name, "rollout/") })
}

// accepted is the record of a cluster with the hashes of today, and what that accepts; nil when there is nothing to accept.
func accepted(c *render.Cluster, reason string) (*ledger.Record, []string) {
	if c.Record == nil {
		return nil, []string{fmt.Sprintf("%s is not in the ledger yet: copyhold allocate enters it", c.Request)}
	}
	var words []string
	hashes := map[string]string{}
	for _, pool := range catalog.Sorted(c.Accepts) {
		hash, was := c.Accepts[pool], c.Record.Rollouts[pool]
		switch {
		case was == "":
			words = append(words, fmt.Sprintf("%s: worker pool %s is recorded with %s", c.Request, pool, hash))
		case was != hash && c.Hashes[pool] == "":
			words = append(words, fmt.Sprintf("%s: whatever becomes of worker pool %s, which only the management cluster can tell, is accepted: %s -> %s", c.Request, pool, was, hash))
		case was != hash:
			words = append(words, fmt.Sprintf("%s: the rollout of worker pool %s is accepted: %s -> %s", c.Request, pool, was, hash))
		}
		hashes[pool] = hash
	}
	if maps.Equal(hashes, c.Record.Rollouts) {
		return nil, nil
	}
	r := *c.Record
	r.Rollouts, r.Reason = hashes, reason
	return &r, words
}

// record is the file of a record.
func record(in *render.Input, r *ledger.Record) (ledger.Write, error) {
	data, err := ledger.FormatRecord(r)
	if err != nil {
		return ledger.Write{}, fmt.Errorf("writing the record of %s: %w", r.Holder(), err)
	}
	w := ledger.Write{File: in.RecordFile(r.Holder()), Data: data}
	if back, found := ledger.ParseRecord(w.File, data); found.Failed() || back.Reason != r.Reason {
		return ledger.Write{}, usageError{fmt.Errorf("reason %q holds what YAML cannot keep", r.Reason), "write it in plain words"}
	}
	return w, nil
}
