package cmp

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/argoproj/gitops-engine/pkg/utils/kube"
)

// fleet is a copy of the example fleet in which every kind is confirmed.
func fleet(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("../../examples/fleet")); err != nil {
		t.Fatal(err)
	}
	edit(t, root, "catalog/catalog.yaml", "placeholder.copyhold.dev", "network.example.org")
	edit(t, root, "catalog/catalog.yaml", "    placeholder: true\n", "")
	edit(t, root, "catalog/classes/kmetal/values.yaml", "placeholder.copyhold.dev", "bootstrap.example.org")
	edit(t, root, "catalog/classes/kmetal/values.yaml", "    placeholder: true\n", "    placeholder: false\n")
	return root
}

// edit replaces a text that is in a file, everywhere in it.
func edit(t testing.TB, root, name, from, to string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(data, []byte(from)) {
		t.Fatalf("%s has no %q", name, from)
	}
	write(t, root, name, strings.ReplaceAll(string(data), from, to))
}

func write(t testing.TB, root, name, text string) {
	t.Helper()
	file := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// run runs a command in a folder and returns what it prints.
func run(t testing.TB, dir string, command ...string) []byte {
	t.Helper()
	c := exec.Command(command[0], command[1:]...)
	c.Dir = dir
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, stderr.String())
	}
	return stdout.Bytes()
}

// rendered is what copyhold render prints of an application, split as Argo CD splits what a plugin prints.
func rendered(t testing.TB, root, path string) []string {
	t.Helper()
	out, err := kube.SplitYAMLToString(run(t, root, copyhold, "render", path))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// commit makes a Git repository of a folder.
func commit(t testing.TB, root string) {
	t.Helper()
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=copyhold", "-c", "user.email=copyhold@example.org", "commit", "-q", "-m", "fleet"}} {
		run(t, root, append([]string{"git"}, args...)...)
	}
}
