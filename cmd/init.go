package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"copyhold.dev/copyhold/catalog/builtin"
	"copyhold.dev/copyhold/render/diag"
)

func (a *app) initCommand() *cobra.Command {
	var tiers []string
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "make a tenants repository with the built-in catalog",
		Long: `init writes a tenants repository into DIR, or into the working folder: the built-in catalog, which mirrors the documented kMetal
tiers, and empty folders for requests and ledger. With --tiers it writes further tiers into the catalog, each a chart of explicit
objects: ` + strings.Join(builtin.Tiers(), ", ") + `. The catalog is yours from then on: copyhold reads the files, never its own copy.

No file is overwritten: when one is there already, nothing is written at all.`,
		Example: `  copyhold init
  copyhold init tenants-repository
  copyhold init --tiers kamaji,proxmox`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("%d arguments, want at most one: the folder", len(args)), c.CommandPath() + " --help"}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			for _, name := range tiers {
				if !slices.Contains(builtin.Tiers(), name) {
					return usageError{fmt.Errorf("tier %q%s", name, diag.OneOf(builtin.Tiers())), c.CommandPath() + " --tiers kamaji"}
				}
			}
			return a.init(dir, tiers)
		},
	}
	c.Flags().StringSliceVar(&tiers, "tiers", nil, "further tiers: "+strings.Join(builtin.Tiers(), ", "))
	return c
}

func (a *app) init(dir string, tiers []string) error {
	files, err := builtin.With(tiers...)
	if err != nil {
		return err
	}
	var found diag.List
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		switch _, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name))); {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("looking into %s: %w", dir, err)
		case err == nil:
			found.Add(diag.Errorf(diag.Pos{File: filepath.ToSlash(filepath.Join(dir, name))}, "init/exists", "the file is there already, nothing is written"))
		}
	}
	if err := a.print(found); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing a tenants repository: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("writing a tenants repository: %w", err)
	}
	defer root.Close()
	for _, name := range names {
		if err := writeNew(root, name, files[name]); err != nil {
			return fmt.Errorf("writing a tenants repository: %w", err)
		}
	}
	a.say("wrote a tenants repository of %d files to %s", len(names), dir)
	there := ""
	if filepath.Clean(dir) != "." {
		there = "cd " + dir + ", "
	}
	a.say("next: %slook through catalog/catalog.yaml, then copyhold new cluster NAMESPACE/NAME", there)
	return nil
}

// writeNew writes a file that must not be there yet, and nothing out of the root.
func writeNew(root *os.Root, name string, data []byte) error {
	name = filepath.FromSlash(name)
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}
