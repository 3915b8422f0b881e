package tests

import (
	"flag"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"copyhold.dev/copyhold/cmd"
)

// update rewrites every expectation of this package: go test ./tests -update
var update = flag.Bool("update", false, "rewrite golden files and the expectations in scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"copyhold": func() { os.Exit(cmd.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("NO_COLOR", "1")
			for _, who := range []string{"AUTHOR", "COMMITTER"} { // git asks for somebody
				e.Setenv("GIT_"+who+"_NAME", "copyhold")
				e.Setenv("GIT_"+who+"_EMAIL", "copyhold@example.org")
			}
			return nil
		},
	})
}
