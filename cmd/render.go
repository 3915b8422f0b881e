package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
)

func (a *app) renderCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "render [PATH...]",
		Short: "print the manifests of a tenants repository or a part of it",
		Long: `render prints the manifests that a tenants repository stands for.

PATH is the root (everything), a tenant's folder or a file in it (its clusters and subnets), or the catalog folder (address
manifests and ClusterClasses). Without PATH it is the working folder. When anything is wrong, nothing is printed on stdout.`,
		Example: `  copyhold render
  copyhold render tenants/photon-prod
  copyhold render -o dir=rendered`,
		RunE: func(_ *cobra.Command, args []string) error { return a.render(args, output) },
	}
	c.Flags().StringVarP(&output, "output", "o", "yaml", "yaml, json, or dir=DIR to write a file per object into an empty folder")
	return c
}

func (a *app) render(args []string, output string) error {
	dir, toDir := strings.CutPrefix(output, "dir=")
	if !toDir && output != "yaml" && output != "json" || toDir && dir == "" {
		return usageError{fmt.Errorf("output %q, want yaml, json or dir=DIR", output), "copyhold render --help"}
	}
	t, paths, err := a.repository(args)
	if err != nil {
		return err
	}
	defer t.close()
	in, set, found, err := render.Render(t, paths...)
	if err != nil {
		return err
	}
	if !found.Failed() && set.Len() == 0 {
		found.Add(nothing(paths, in.Platform && !in.Complete))
	}
	if err := a.print(found); err != nil {
		return err
	}
	if toDir {
		return a.writeDir(t, set, dir)
	}
	var b bytes.Buffer // all of it or nothing: half a fleet on stdout looks like a fleet
	write := set.WriteYAML
	if output == "json" {
		write = set.WriteJSON
	}
	if err := write(&b); err != nil {
		return err
	}
	if _, err := b.WriteTo(a.stdout); err != nil {
		return fmt.Errorf("writing the manifests: %w", err)
	}
	return nil
}

// nothing is the finding of an empty result. It is an error: whoever applies an empty fleet prunes the one that is there.
func nothing(paths []string, platform bool) diag.Finding {
	where := strings.Join(paths, ", ")
	if where == "." {
		where = "this repository"
	}
	f := diag.Errorf(diag.Pos{}, "render/nothing", "nothing to render in %s", where)
	if platform {
		return f.Hintf("an address pool with a mode, or a class source with render: true, would be rendered here")
	}
	return f.Hintf("copyhold new cluster NAMESPACE/NAME writes a first request")
}

// writeDir writes a file per object. The folder must be empty, so that nothing of an earlier fleet stays and nothing is overwritten.
func (a *app) writeDir(t *tree, set manifest.Set, dir string) error {
	if abs, err := filepath.Abs(dir); err == nil {
		if rel, err := t.relative(abs); err == nil && strings.Contains(rel, "/") {
			return usageError{fmt.Errorf("folder %s lies in a folder of the repository, where its files would be read", dir), "name one beside them, or outside"}
		}
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = os.MkdirAll(dir, 0o755)
	case err == nil && len(entries) > 0:
		return usageError{fmt.Errorf("folder %s is not empty", dir), "name a new folder, or empty this one"}
	}
	if err != nil {
		return fmt.Errorf("writing the manifests: %w", err)
	}
	names := map[string]bool{}
	for _, o := range set.Objects() {
		if name := fileName(o); strings.ContainsAny(name, `/\`) || names[strings.ToLower(name)] {
			return fmt.Errorf("%s has no file name of its own: %s", manifest.IDOf(o), name)
		}
		names[strings.ToLower(fileName(o))] = true
	}
	for _, o := range set.Objects() {
		data, err := manifest.YAML(o)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, fileName(o)), data, 0o644); err != nil {
			return fmt.Errorf("writing the manifests: %w", err)
		}
	}
	a.say("wrote %d files to %s", set.Len(), dir)
	return nil
}

// fileName is unique within a set: kind and group, namespace and name, each of which has no underscore.
func fileName(o *manifest.Object) string {
	id := manifest.IDOf(o)
	parts := []string{strings.ToLower(id.Kind)}
	for _, p := range []string{id.Group, id.Namespace, id.Name} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, "_") + ".yaml"
}
