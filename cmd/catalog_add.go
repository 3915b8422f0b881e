package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"copyhold.dev/copyhold/catalog/builtin"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
)

func (a *app) catalogAddCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "add TIER",
		Short: "write a built-in tier's chart into the catalog",
		Long: `add writes the chart of a built-in tier, and the schemas of its kinds, into the catalog's folder, and prints the entry that makes it a
tier: put it under tiers in catalog.yaml. The built-in tiers are ` + strings.Join(builtin.Tiers(), ", ") + `.

No file is overwritten: where one is there already with other content, nothing is written at all.`,
		Example: `  copyhold catalog add proxmox`,
		Args:    exactly(1, "one: a built-in tier"),
		RunE: func(c *cobra.Command, args []string) error {
			if !slices.Contains(builtin.Tiers(), args[0]) {
				return usageError{fmt.Errorf("tier %q%s", args[0], diag.OneOf(builtin.Tiers())), c.CommandPath() + " kamaji"}
			}
			return a.catalogAdd(args[0])
		},
	}
}

func (a *app) catalogAdd(name string) error {
	t, _, err := a.repository(nil)
	if err != nil {
		return err
	}
	defer t.close()
	in, found, err := render.Offer(t)
	if err != nil {
		return err
	}
	if in == nil {
		return a.print(found)
	}
	files, entry, err := builtin.Tier(name)
	if err != nil {
		return err
	}
	var fresh []string
	var bad diag.List
	for _, file := range slices.Sorted(maps.Keys(files)) {
		to := path.Join(in.Folders.Catalog, strings.TrimPrefix(file, "catalog/"))
		switch there, err := fs.ReadFile(t, to); {
		case errors.Is(err, fs.ErrNotExist):
			fresh = append(fresh, file)
		case err != nil:
			return err
		case !bytes.Equal(there, files[file]) && !strings.HasPrefix(file, "catalog/crds/"): // whoever has a schema keeps it: hashes are made with it
			bad.Add(diag.Errorf(diag.Pos{File: to}, "catalog/exists", "the file is there already, nothing is written"))
		}
	}
	if bad.Failed() {
		return a.print(bad)
	}
	for _, file := range fresh {
		if err := writeNew(t.root, path.Join(in.Folders.Catalog, strings.TrimPrefix(file, "catalog/")), files[file]); err != nil {
			return fmt.Errorf("writing tier %s: %w", name, err)
		}
	}
	a.say("wrote %s; put this under tiers in %s/catalog.yaml:", count(len(fresh), "file"), in.Folders.Catalog)
	_, err = a.stdout.Write(entry)
	return err
}
