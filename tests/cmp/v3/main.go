// Command v3 is argocd-cmp-server of Argo CD 3, for the same tests: a module of its own, since one program cannot hold both.
package main

import (
	"os"

	"github.com/argoproj/argo-cd/v3/cmd/argocd-cmp-server/commands"
)

func main() {
	if err := commands.NewCommand().Execute(); err != nil {
		os.Exit(1)
	}
}
