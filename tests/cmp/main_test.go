package cmp

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	log "github.com/sirupsen/logrus"
)

// The programs under test.
var (
	copyhold string // the command, alone in its folder
	server   string // argocd-cmp-server
)

func TestMain(m *testing.M) {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "tests/cmp:", err)
		os.Exit(1)
	}
	log.SetLevel(log.ErrorLevel) // Argo CD's client code tells of every call
	code := m.Run()
	shared.stop()
	os.Exit(code)
}

// release is the major version of Argo CD whose server is tested: 2, or what ARGOCD_MAJOR says, which is 3. The calls are those of
// version 2 in either case: a repo-server and a plugin's sidecar are not always of one release.
func release() string { return cmp.Or(os.Getenv("ARGOCD_MAJOR"), "2") }

// build compiles the programs. go build leaves a program alone that is up to date.
func build() error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	dir := filepath.Join(cache, "copyhold-tests")
	module, pkg := ".", "./server"
	if release() == "3" {
		module, pkg = "v3", "."
	}
	server = filepath.Join(dir, "argocd-"+release(), "argocd-cmp-server")
	copyhold = filepath.Join(dir, "copyhold", "copyhold")
	if _, err := os.Stat(server); err != nil {
		fmt.Fprintf(os.Stderr, "building Argo CD's plugin server, which takes minutes the first time; it is kept in %s\n", dir)
	}
	for _, p := range []struct{ module, pkg, out string }{{module, pkg, server}, {"../..", "./cmd/copyhold", copyhold}} {
		c := exec.Command("go", "build", "-buildvcs=false", "-o", p.out, p.pkg)
		c.Dir = p.module
		c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("go build %s: %w\n%s", p.pkg, err, out)
		}
	}
	return nil
}
