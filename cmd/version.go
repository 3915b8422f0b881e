package cmd

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"copyhold.dev/copyhold/render/topology"
)

// version is set by the linker in a release (-X copyhold.dev/copyhold/cmd.version=v0.1.0).
var version string

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "print the version of copyhold and of the Cluster API engine in it",
		Example: `  copyhold version`,
		Args:    exactly(0, "none"),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.stdout, versionText())
			return err
		},
	}
}

func versionText() string {
	v := version
	if info, ok := debug.ReadBuildInfo(); v == "" && ok {
		v = info.Main.Version
	}
	if v == "" {
		v = "(devel)"
	}
	return fmt.Sprintf("copyhold %s, Cluster API %s, %s", v, topology.Version, runtime.Version())
}
