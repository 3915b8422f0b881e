package tests

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fromBuild is a line of the Dockerfile that puts a built file into the image.
var fromBuild = regexp.MustCompile(`(?m)^COPY --from=build (\S+) (\S+)$`)

// TestImage builds the root that the Dockerfile describes, as a folder, and renders in it as the image would: as uid 999, on a
// read-only file system, with an empty environment and no network interface.
func TestImage(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("entering a root as another user needs root; CI has it")
	}
	dockerfile, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, last, ok := strings.Cut(string(dockerfile), "\nFROM scratch\n")
	copies := fromBuild.FindAllStringSubmatch(last, -1)
	if !ok || len(copies) != 1 || strings.Count(last, "COPY") != len(copies)+1 || !strings.Contains(last, "COPY plugin/plugin.yaml ") || !strings.Contains(last, "\nUSER 999:999\n") {
		t.Fatalf("the last stage of the Dockerfile is not what this test knows how to build:\n%s", last)
	}
	root := t.TempDir()
	binary := copies[0][2]
	build := exec.Command("go", "build", "-o", filepath.Join(root, binary), "../cmd/copyhold")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	repository := filepath.Join(root, "repository")
	if err := os.CopyFS(repository, os.DirFS("../examples/fleet")); err != nil {
		t.Fatal(err)
	}
	readable(t, root)
	// The bind mount lives in the mount namespace of the shell and goes with it.
	run := exec.Command("unshare", "--mount", "--net", "sh", "-ec", `
		mount --bind "$ROOT" "$ROOT"
		mount -o remount,bind,ro "$ROOT"
		exec env -i "$(command -v chroot)" --userspec=999:999 "$ROOT" "$BINARY" render --root /repository /repository/tenants/photon-prod
	`)
	run.Env = append(os.Environ(), "ROOT="+root, "BINARY="+binary)
	var stdout, stderr bytes.Buffer
	run.Stdout, run.Stderr = &stdout, &stderr
	if err := run.Run(); err != nil {
		t.Fatalf("render in the image's root: %v\n%s", err, stderr.String())
	}
	want, err := os.ReadFile("../examples/fleet/rendered/photon-prod.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(stdout.Bytes(), want) {
		t.Errorf("render in the image's root differs from examples/fleet/rendered/photon-prod.yaml:\n%s", stdout.String())
	}
}

// readable lets any user read what is under a folder.
func readable(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		return os.Chmod(name, info.Mode().Perm()&0o111|0o444|map[bool]fs.FileMode{true: 0o111}[e.IsDir()])
	})
	if err != nil {
		t.Fatal(err)
	}
}
