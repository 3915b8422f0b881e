// Command copyhold renders tenant requests into Cluster API manifests. See package cmd.
package main

import (
	"os"

	"copyhold.dev/copyhold/cmd"
)

func main() {
	os.Exit(cmd.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
