package cmp

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-cd/v2/common"
)

// In the sidecar as the examples set it up: user 999, a root file system that is read-only but for the server's own two folders, no
// network, no home.
func TestSealed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a mount namespace and another user need root; CI has it")
	}
	config, err := os.ReadFile("../../plugin/plugin.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := newServer("copyhold", config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.stop() }()
	programs := t.TempDir() // those under test may lie where user 999 may not look
	for _, p := range []string{server, copyhold} {
		run(t, programs, "cp", p, programs)
	}
	for _, d := range []string{s.sockets(), s.work()} {
		if err := os.Chown(d, 999, 999); err != nil {
			t.Fatal(err)
		}
	}
	openUp(t, s.dir, programs)
	// Mounts live in the shell's namespace, and go with the server that it becomes.
	c := exec.Command("unshare", "--mount", "--net", "sh", "-ec", `
		mount --bind "$DIR/sockets" "$DIR/sockets"
		mount --bind "$DIR/work" "$DIR/work"
		mount -o remount,bind,ro /
		if touch "$DIR/config/x" 2>/dev/null; then echo "the root can be written"; exit 1; fi
		cd /
		exec "$(command -v chroot)" --userspec=999:999 --groups= / "$PROGRAMS/argocd-cmp-server" --config-dir-path "$DIR/config"
	`)
	c.Env = append(s.environ(), "DIR="+s.dir, "PROGRAMS="+programs)
	for i, e := range c.Env {
		if strings.HasPrefix(e, "PATH=") {
			c.Env[i] = "PATH=" + programs + ":" + os.Getenv("PATH")
		}
	}
	if err := s.run(c); err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil || !strings.Contains(string(status), "\nUid:\t999\t999\t999\t999\n") {
		t.Fatalf("the server is not user 999: %v\n%s", err, status)
	}
	t.Setenv(common.EnvPluginSockFilePath, s.sockets())
	root := fleet(t)
	for _, path := range applications {
		got, err := s.generate(t.Context(), call{root: root, path: path, env: appEnv(), exclude: []string{".git"}})
		if want := rendered(t, root, path); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %d objects, want %d", path, err, len(got), len(want))
		}
	}
	if _, err := s.parameters(t.Context(), call{root: root, path: "catalog"}); err != nil {
		t.Errorf("parameters: %v", err)
	}
}

// openUp lets any user look into folders, and into those they lie in that are the test's.
func openUp(t *testing.T, dirs ...string) {
	t.Helper()
	for _, d := range dirs {
		for ; d != os.TempDir() && d != "/"; d = d[:strings.LastIndex(d, "/")] {
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
}
