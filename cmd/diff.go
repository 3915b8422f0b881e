package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/gitsource"
	"copyhold.dev/copyhold/render/impact"
)

type comparison struct {
	base, baseDir, head string
	output, failOn      string
	verbose             bool
}

func (a *app) diffCommand() *cobra.Command {
	var o comparison
	c := &cobra.Command{
		Use:   "diff [PATH...|NAMESPACE/NAME...]",
		Short: "say what a change does to running clusters: which workers it replaces, and why",
		Long: `diff compares what two states of a tenants repository make of its clusters, with Cluster API's own engine, and says what the change
does to those that run. It needs no cluster: it takes the base for what runs.

The base is the merge base of HEAD and the branch it tracks, else main; or that of --base; or the folder --base-dir. The other side
is the working tree, or the commit --head. PATH is what render takes; NAMESPACE/NAME is one cluster.

What can happen, worst first: ` + strings.Join(worstFirst(), ", ") + `.
The exit code is 1 when something is at least as bad as --fail-on; rollout there means whatever may replace machines.`,
		Example: `  copyhold diff
  copyhold diff -v tenants/photon-prod
  copyhold diff photon-prod/solar
  copyhold diff --base origin/main --fail-on rollout
  copyhold diff --base v1.4.0 --head v1.5.0 -o markdown`,
		RunE: func(c *cobra.Command, args []string) error {
			for _, f := range []string{"base", "head", "base-dir", "fail-on"} {
				if c.Flags().Changed(f) && c.Flags().Lookup(f).Value.String() == "" {
					return usageError{fmt.Errorf("--%s is empty", f), "copyhold diff --help"}
				}
			}
			return a.diff(args, o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.base, "base", "", "revision to compare with; its merge base with the other side is taken")
	f.StringVar(&o.baseDir, "base-dir", "", "folder to compare with: the root of a tenants repository as it was")
	f.StringVar(&o.head, "head", "", "revision to look at instead of the working tree")
	f.StringVarP(&o.output, "output", "o", "text", "text, markdown, json, or github for annotations of a workflow")
	f.StringVar(&o.failOn, "fail-on", "", "exit with 1 when something is at least as bad as this")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "every change with its causes and differences")
	return c
}

func worstFirst() []string {
	var out []string
	for _, a := range slices.Backward(impact.Actions) {
		if a != impact.None {
			out = append(out, string(a))
		}
	}
	return out
}

func (a *app) diff(args []string, o comparison) error {
	if !slices.Contains([]string{"text", "markdown", "json", "github"}, o.output) {
		return usageError{fmt.Errorf("output %q, want text, markdown, json or github", o.output), "copyhold diff --help"}
	}
	threshold := impact.Action(o.failOn)
	if o.failOn != "" && (!slices.Contains(impact.Actions, threshold) || threshold == impact.None) {
		return usageError{fmt.Errorf("--fail-on %q, want one of %s", o.failOn, strings.Join(worstFirst(), ", ")), "copyhold diff --help"}
	}
	if o.base != "" && o.baseDir != "" {
		return usageError{errors.New("--base and --base-dir are both given, want one"), "copyhold diff --help"}
	}
	t, paths, err := a.repository(args)
	if err != nil && len(args) > 0 && !slices.ContainsFunc(args, noCluster) { // clusters are named the same from wherever they are
		if t, _, err = a.repository(nil); err == nil {
			paths = args
		}
	}
	if err != nil {
		return err
	}
	defer t.close()
	s, err := a.sides(t, o)
	if err != nil {
		return err
	}
	defer s.close()
	only, err := s.clusters(args, paths)
	if err != nil {
		return err
	}
	report, found, err := s.compare(paths, only)
	if err != nil {
		return err
	}
	failed := a.print(errorsOnly(acceptable(found))) // warnings are for check; the lock on rollouts is part of the report
	if report == nil {
		return failed
	}
	if err := a.writeReport(report, o); err != nil {
		return err
	}
	if o.failOn != "" && report.Reaches(threshold) {
		return errFound
	}
	return failed
}

func errorsOnly(found diag.List) diag.List {
	return slices.DeleteFunc(slices.Clone(found), func(f diag.Finding) bool { return f.Severity != diag.Error })
}

func (a *app) writeReport(r *impact.Report, o comparison) error {
	switch o.output {
	case "markdown":
		return r.Markdown(a.stdout)
	case "json":
		return r.JSON(a.stdout)
	case "github":
		return r.GitHub(a.stdout)
	}
	return r.Text(a.stdout, o.verbose, func(action impact.Action, s string) string {
		if !wantsColour(a.stdout) {
			return s
		}
		switch {
		case action.AtLeast(impact.Rollout):
			return "\x1b[" + red + "m" + s + "\x1b[0m"
		case action.AtLeast(impact.ControlPlane):
			return "\x1b[" + yellow + "m" + s + "\x1b[0m"
		}
		return s
	})
}

// sides are the two states to compare.
type sides struct {
	base, head         fs.FS
	baseName, headName string
	changed            []string // files that differ, when it is known
	known              bool
	close              func()
}

// sides opens both.
func (a *app) sides(t *tree, o comparison) (*sides, error) {
	s := &sides{head: t, headName: "working tree", close: func() {}}
	var repo *gitsource.Repo
	if o.baseDir == "" || o.head != "" {
		var err error
		if repo, err = gitsource.Open(t.dir); err != nil {
			if errors.Is(err, gitsource.ErrNoRepository) {
				return nil, fmt.Errorf("%w: there is nothing to compare with; --base-dir compares with a folder", err)
			}
			return nil, err
		}
	}
	head := "HEAD"
	var headTree *gitsource.Tree
	if o.head != "" {
		var err error
		if headTree, err = repo.At(o.head); err != nil {
			return nil, err
		}
		head, s.head, s.headName = o.head, headTree, headTree.Commit
	}
	if o.baseDir != "" {
		if _, err := os.Stat(o.baseDir); err != nil {
			return nil, usageError{fmt.Errorf("--base-dir %s: %w", o.baseDir, cause(err)), "copyhold diff --help"}
		}
		b, err := openTree(o.baseDir)
		if err != nil {
			return nil, err
		}
		s.base, s.baseName, s.close = b, o.baseDir, b.close
		return s, nil
	}
	if o.base == "" {
		var err error
		if o.base, err = repo.Upstream(); err != nil {
			return nil, err
		}
	}
	base, err := repo.Base(o.base, head)
	if err != nil {
		return nil, err
	}
	s.base, s.baseName = base, base.Commit
	if headTree != nil {
		s.changed, err = base.Changed(headTree)
	} else {
		s.changed, err = repo.ChangedFiles(base, t.dir)
	}
	switch {
	case errors.Is(err, gitsource.ErrLinks):
	case err != nil:
		return nil, fmt.Errorf("looking for what has changed: %w", err)
	default:
		s.known = true
	}
	return s, nil
}

func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// clusters are those of the arguments that name one, as NAMESPACE/NAME, and neither a file nor a folder of either side; their paths become
// those of their tenants.
func (s *sides) clusters(args, paths []string) ([]string, error) {
	var only []string
	var in *render.Input // read when the first is named
	for i, arg := range args {
		if noCluster(arg) || s.has(paths[i]) {
			continue
		}
		namespace, _, _ := strings.Cut(arg, "/")
		if in == nil {
			var err error
			if in, _, err = render.Offer(s.head); err != nil {
				return nil, err
			}
		}
		if in == nil || !s.has(path.Join(in.Folders.Tenants, namespace)) {
			continue
		}
		only, paths[i] = append(only, arg), path.Join(in.Folders.Tenants, namespace)
	}
	if len(only) > 0 && len(only) < len(args) {
		return nil, usageError{errors.New("paths and clusters are both named, want one or the other"), "copyhold diff --help"}
	}
	return only, nil
}

// noCluster reports whether an argument is not of the form NAMESPACE/NAME.
func noCluster(arg string) bool { return strings.HasPrefix(arg, ".") || wantHolder(arg) != nil }

// among leaves of two fleets the clusters that were named, and nothing else. One that is in neither is a slip.
func among(was, is *render.Fleet, only []string) diag.List {
	var found diag.List
	for _, name := range only {
		if was.Clusters[name] == nil && is.Clusters[name] == nil {
			found.Add(diag.Errorf(diag.Pos{}, "path/missing", "there is no request for cluster %s, here or in the base", name))
		}
	}
	for _, f := range []*render.Fleet{was, is} {
		maps.DeleteFunc(f.Clusters, func(name string, _ *render.Cluster) bool { return !slices.Contains(only, name) })
		f.Objects = nil
	}
	return found
}

// compare works out the report. What no changed file bears on is not even read. only are the clusters to look at; none is all.
func (s *sides) compare(paths, only []string) (*impact.Report, diag.List, error) {
	for _, p := range paths { // a path that is on neither side is a slip, not a tenant on which nothing happens
		if p != "." && !s.has(p) {
			return nil, diag.List{diag.Errorf(diag.Pos{File: p}, "path/missing", "there is no such file or folder, here or in the base")}, nil
		}
	}
	asked, skipped := paths, 0
	if s.known && len(only) == 0 {
		in, found, err := render.Offer(s.head)
		if err != nil {
			return nil, nil, err
		}
		if in != nil && !found.Failed() {
			if asked, skipped, err = s.narrow(in, paths); err != nil {
				return nil, nil, err
			}
		}
	}
	if len(asked) == 0 {
		r := impact.Nothing(skipped)
		r.Base, r.Head = s.baseName, s.headName
		return r, nil, nil
	}
	was, err := render.LoadFleet(s.base, there(s.base, asked))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the base: %w", err)
	}
	is, err := render.LoadFleetSince(s.base, s.head, there(s.head, asked))
	if err != nil {
		return nil, nil, err
	}
	if is.Input == nil || is.Input.Catalog == nil {
		return nil, is.Found, nil
	}
	if len(only) > 0 {
		if missing := among(was, is, only); missing.Failed() {
			return nil, missing, nil
		}
	}
	r, err := impact.Compare(was, is)
	if err != nil {
		return nil, nil, err
	}
	r.Base, r.Head, r.Skipped = s.baseName, s.headName, skipped
	if was.Found.Failed() {
		r.Notes = append(r.Notes, "the base does not render cleanly: "+was.Found.Sorted()[0].String())
	}
	return r, is.Found, nil
}

// has reports whether a path is there on one side at least.
func (s *sides) has(p string) bool {
	return len(there(s.base, []string{p}))+len(there(s.head, []string{p})) > 0
}

// there leaves out folders that a tree does not have: a tenant may be new, or gone.
func there(tree fs.FS, paths []string) []string {
	var out []string
	for _, p := range paths {
		if _, err := fs.Stat(tree, path.Clean(p)); err == nil || p == "." {
			out = append(out, p)
		}
	}
	return out
}

// narrow turns the paths that were asked for into the tenants among them that a changed file bears on, and counts the others. A change
// of the catalog bears on all.
func (s *sides) narrow(in *render.Input, paths []string) ([]string, int, error) {
	touched := map[string]bool{}
	for _, f := range s.changed {
		switch parts := strings.Split(f, "/"); {
		case f == render.RootFile || strings.HasPrefix(f, in.Folders.Catalog+"/"):
			return paths, 0, nil
		case strings.HasPrefix(f, in.Folders.Tenants+"/"):
			touched[parts[strings.Count(in.Folders.Tenants, "/")+1]] = true
		case strings.HasPrefix(f, in.Folders.Ledger+"/clusters/"):
			touched[parts[strings.Count(in.Folders.Ledger, "/")+2]] = true
		}
	}
	tenants := map[string]bool{}
	for _, side := range []fs.FS{s.base, s.head} {
		entries, err := fs.ReadDir(side, in.Folders.Tenants)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, 0, err
		}
		for _, e := range entries {
			if e.IsDir() {
				tenants[e.Name()] = true
			}
		}
	}
	var out []string
	skipped := 0
	for name := range tenants {
		dir := path.Join(in.Folders.Tenants, name)
		switch {
		case touched[name]:
			for _, p := range paths {
				switch {
				case p == "." || p == in.Folders.Tenants || p == dir:
					out = append(out, dir)
				case strings.HasPrefix(p, dir+"/"):
					out = append(out, p)
				}
			}
		case slices.ContainsFunc(paths, func(p string) bool {
			return p == "." || p == in.Folders.Tenants || p == dir || strings.HasPrefix(p, dir+"/")
		}):
			skipped++
		}
	}
	slices.Sort(out)
	return slices.Compact(out), skipped, nil
}
