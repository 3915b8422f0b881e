package cmd

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/gitsource"
)

func (a *app) checkCommand() *cobra.Command {
	var base, as string
	c := &cobra.Command{
		Use:   "check [PATH...]",
		Short: "say everything that is wrong with a tenants repository or a part of it",
		Long: `check reads and renders what PATH names and prints all findings, with file, line and column. It writes nothing.

PATH is what render takes. At the root the ledger is judged as a whole: doubled addresses, locks and records that disagree, holders
that are gone. With --base, so is what the change since the merge base with that revision does: to the ledger, entries of clusters whose
requests it does not touch, and deleted files; and what it asks for that is no longer on offer, which for clusters that run already is a
warning. In CI, check the merge result. The exit code is 1 when a finding is an error.`,
		Example: `  copyhold check
  copyhold check tenants/photon-prod
  copyhold check --base origin/main`,
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("base") && base == "" {
				return usageError{errors.New("--base is empty, want a revision, as origin/main"), "copyhold check --help"}
			}
			return a.check(args, base, as)
		},
	}
	c.Flags().StringVar(&base, "base", "", "revision that the change starts from, as origin/main")
	c.Flags().StringVar(&as, "as", "tenant", "with --base, whose change it is: tenant, or platform, who may touch entries of others and accept any rollout")
	return c
}

func (a *app) check(args []string, base, as string) error {
	if as != "tenant" && as != "platform" {
		return usageError{fmt.Errorf("--as %q, want tenant or platform", as), "copyhold check --help"}
	}
	t, paths, err := a.repository(args)
	if err != nil {
		return err
	}
	defer t.close()
	var was fs.FS
	if base != "" {
		if was, err = mergeBase(t, base); err != nil {
			return err
		}
	}
	in, found, err := render.Check(was, t, paths...)
	if err != nil {
		return err
	}
	if was != nil && in != nil {
		more, err := render.ForeignChanges(was, t, in, as == "platform")
		if err != nil {
			return err
		}
		found.Add(more...)
	}
	failed := a.print(found)
	errs, warnings := 0, 0
	for _, f := range found.Sorted() {
		if f.Severity == diag.Error {
			errs++
		} else {
			warnings++
		}
	}
	read := ""
	if in != nil {
		clusters, subnets := 0, 0
		for _, tenant := range in.Tenants {
			clusters += len(tenant.Clusters)
			subnets += len(tenant.Subnets)
		}
		read = fmt.Sprintf("%s and %s of %s: ", count(clusters, "cluster"), count(subnets, "subnet"), count(len(in.Tenants), "tenant"))
	}
	a.say("%s%s, %s", read, count(errs, "error"), count(warnings, "warning"))
	return failed
}

// count is "no errors", "1 error", "2 errors".
func count(n int, what string) string {
	switch n {
	case 0:
		return "no " + what + "s"
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// mergeBase is the tree that the work since a revision starts from.
func mergeBase(t *tree, base string) (fs.FS, error) {
	repo, err := gitsource.Open(t.dir)
	if err != nil {
		return nil, err
	}
	return repo.Base(base, "HEAD")
}
