// Command server is argocd-cmp-server, the process that runs in a plugin's sidecar and calls the plugin: Argo CD's own command, without
// the rest of Argo CD's binary.
package main

import (
	"os"

	"github.com/argoproj/argo-cd/v2/cmd/argocd-cmp-server/commands"
)

func main() {
	if err := commands.NewCommand().Execute(); err != nil {
		os.Exit(1)
	}
}
