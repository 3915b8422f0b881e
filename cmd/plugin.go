package cmd

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"copyhold.dev/copyhold/plugin"
	"copyhold.dev/copyhold/render"
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
		Long: `generate is render for Argo CD: it prints the manifests of the working folder, or fails. It writes nothing, needs no Git, and never
succeeds with nothing to show. Placeholder kinds are errors. Of what is wrong at most 4 KiB go to stderr, the most important first.

An Application may set two parameters, arrays both, which leave out and do nothing else: clusters names the clusters to print, and kinds
the kinds. Argo CD hands them over in ARGOCD_APP_PARAMETERS. A parameter that copyhold does not know is an error, and so is
anything in spec.source.plugin.env.`,
		Example: `  cd tenants/photon-prod && copyhold plugin generate`,
		Args:    exactly(0, "none"),
		RunE:    func(*cobra.Command, []string) error { return a.generate() },
	}, &cobra.Command{
		Use:   "parameters",
		Short: "print the parameters that the application in the working folder may set",
		Long: `parameters prints what Argo CD's user interface shows of the plugin's parameters: a JSON list, with the clusters and kinds that the
working folder has. It says nothing of what is wrong there: generate does.`,
		Example: `  cd tenants/photon-prod && copyhold plugin parameters`,
		Args:    exactly(0, "none"),
		RunE:    func(*cobra.Command, []string) error { return a.parameters() },
	})
	return c
}

func (a *app) generate() error {
	p, found := plugin.ReadParameters(os.Environ())
	var out []byte
	if !found.Failed() {
		t, folder, err := a.application()
		if err != nil {
			return err
		}
		defer t.close()
		if out, found, err = plugin.Generate(t, folder, p); err != nil {
			return errors.New(plugin.Cut(err.Error(), plugin.MaxMessage/2))
		}
	}
	if _, err := io.WriteString(a.stderr, plugin.Message(found)); err != nil {
		return err
	}
	if found.Failed() {
		return errFound
	}
	_, err := a.stdout.Write(out)
	return err
}

func (a *app) parameters() error {
	t, folder, err := a.application()
	if err != nil {
		return err
	}
	defer t.close()
	out, err := plugin.Parametrize(t, folder)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(out)
	return err
}

// application opens the repository that the working folder lies in. Argo CD unpacks it into a folder of another name for each call, so
// no message names that folder.
func (a *app) application() (*tree, string, error) {
	t, paths, err := a.repository(nil)
	var usage usageError
	if errors.As(err, &usage) {
		a.place(&usage)
		return nil, "", usage
	}
	if err != nil {
		return nil, "", err
	}
	return t, paths[0], nil
}

// place rewrites a message about where the root is by paths below it.
func (a *app) place(usage *usageError) {
	wd, err := getwd()
	if err != nil {
		return
	}
	top := ""
	for dir := wd; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, render.RootFile)); err == nil {
			top = dir
		}
	}
	if top == "" {
		usage.err = errors.New("no " + render.RootFile + " in the application's folder or any above it")
		usage.hint = "spec.source.path wants a folder of a tenants repository; with manifest-generate-paths, list what the folder needs: see docs/argocd.md"
		return
	}
	text := strings.ReplaceAll(usage.err.Error(), top+string(filepath.Separator), "")
	usage.err = errors.New(strings.ReplaceAll(text, top, "the root of the repository"))
}
