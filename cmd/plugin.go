package cmd

import (
	"bytes"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"copyhold.dev/copyhold/plugin"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/manifest"
)

func (a *app) pluginCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "plugin",
		Short: "what Argo CD's sidecar calls",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use:   "generate",
		Short: "print the manifests of the application in the working folder",
		Long: `generate is render for Argo CD: it prints the manifests of the working folder, or fails. It takes no parameters and reads no
environment, writes nothing and needs no Git, and it never succeeds with nothing to show. Placeholder kinds are errors. Of what is
wrong at most 4 KiB go to stderr, errors first.`,
		Example: `  cd tenants/photon-prod && copyhold plugin generate`,
		Args:    exactly(0, "none"),
		RunE:    func(*cobra.Command, []string) error { return a.generate() },
	})
	return c
}

func (a *app) generate() error {
	t, paths, err := a.repository(nil)
	if err != nil {
		return err
	}
	defer t.close()
	in, set, found, err := render.Render(t, paths...)
	if err != nil {
		return err
	}
	found = plugin.Strict(found)
	if !found.Failed() && set.Len() == 0 {
		found.Add(nothing(paths, in.Platform && !in.Complete))
	}
	if _, err := io.WriteString(a.stderr, plugin.Message(found)); err != nil {
		return err
	}
	if found.Failed() {
		return errFound
	}
	var b bytes.Buffer
	if err := set.WriteYAML(&b); err != nil {
		return err
	}
	// Argo CD reads a stray line as part of the first object, so what goes out is read back first.
	if back, err := manifest.Parse(b.Bytes()); err != nil || len(back) != set.Len() {
		return fmt.Errorf("the manifests do not read back: %d of %d objects, %w", len(back), set.Len(), err)
	}
	_, err = b.WriteTo(a.stdout)
	return err
}
