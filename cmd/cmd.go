// Package cmd is the command line of copyhold: a file for each subcommand. It is the only place that opens files, reads the
// environment or knows the working folder; the work is done in render and below.
//
// The command's words, exit codes and file formats are what a release promises; the Go packages promise nothing.
package cmd

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"copyhold.dev/copyhold/render/diag"
)

// Exit codes.
const (
	exitOK       = 0 // nothing wrong; warnings may have been printed
	exitFindings = 1 // something is wrong with the user's files
	exitUsage    = 2 // the command was not understood
	exitFailure  = 3 // copyhold could not do its work
)

// app is one run of the command.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	colour         bool
	root           string // --root
}

// Main runs the command and returns its exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// A run is short and its memory goes with it: collecting garbage is worth its time only when there is much of it.
	debug.SetGCPercent(400)
	log.SetOutput(io.Discard) // helm tells it what it thinks of a chart's values; stderr is for findings
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, colour: wantsColour(stderr)}
	root := a.command()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return a.report(root.Execute())
}

// errFound and errUsage are the errors of a command whose findings have been printed.
var (
	errFound = errors.New("findings")
	errUsage = errors.New("usage")
)

// usageError is a mistake in how the command was called.
type usageError struct {
	err  error
	hint string
}

func (e usageError) Error() string { return e.err.Error() }

func (a *app) command() *cobra.Command {
	c := &cobra.Command{
		Use:   "copyhold",
		Short: "render tenant cluster requests into Cluster API manifests",
		Long: `copyhold turns short tenant requests, kept in Git, into Cluster API manifests.
It needs no cluster and no network, and the same commit always gives the same output.`,
		Example: `  copyhold init
  copyhold new cluster photon-prod/solar --subnet production --address 172.21.208.100
  copyhold render tenants/photon-prod`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.Version = versionText()
	c.SetVersionTemplate("{{.Version}}\n")
	c.PersistentFlags().StringVar(&a.root, "root", "", "root of the tenants repository (default: the nearest folder upwards with a copyhold.yaml)")
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usageError{err, c.CommandPath() + " --help"} })
	c.AddCommand(a.initCommand(), a.newCommand(), a.renderCommand(), a.checkCommand(), a.diffCommand(), a.explainCommand(), a.allocateCommand(), a.ackCommand(), a.releaseCommand(), a.defaultsCommand(), a.ledgerCommand(), a.catalogCommand(), a.gateCommand(), a.pluginCommand(), a.versionCommand())
	return c
}

// report prints an error, if there is one to print, and turns it into an exit code.
func (a *app) report(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFound):
		return exitFindings
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.As(err, &usage):
		a.fail(err.Error(), usage.hint)
		return exitUsage
	case strings.HasPrefix(err.Error(), "unknown command"), strings.Contains(err.Error(), "arg(s), "):
		a.fail(err.Error(), "copyhold --help lists the commands")
		return exitUsage
	}
	a.fail(err.Error(), "")
	return exitFailure
}

// print writes findings to stderr, and returns errFound when one of them is an error.
func (a *app) print(found diag.List) error {
	usage := false
	for _, f := range found.Sorted() {
		a.finding(f)
		usage = usage || strings.HasPrefix(f.Name, "path/")
	}
	switch {
	case usage: // the command line named what is not there
		return errUsage
	case found.Failed():
		return errFound
	}
	return nil
}

// exactly wants n arguments, named for the message.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return usageError{fmt.Errorf("%d arguments, want %s", len(args), what), c.CommandPath() + " --help"}
	}
}

// getwd is the working folder by its real path: what a shell says of it may hold links and dots.
func getwd() (string, error) {
	dir, err := os.Getwd()
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("finding the working folder: %w", err)
	}
	return dir, nil
}
