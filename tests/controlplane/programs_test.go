package controlplane

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// kubernetesVersion is what the API server says it is. Its source does not know; Cluster API asks.
const kubernetesVersion = "v1.36.3"

// programs are the tools of go.mod, and one that is here. The cheap ones come first.
var programs = []struct{ name, pkg, module string }{
	{"etcd", "go.etcd.io/etcd/server/v3", "."},
	{"capi-core", "sigs.k8s.io/cluster-api/core", "."},
	{"capi-kubeadm", "sigs.k8s.io/cluster-api/bootstrap/kubeadm", "."},
	{"metallb-validator", ".", "metallb"},
	{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", "."},
}

// buildFlags hold for all builds. The compiler's flags are those of the tests themselves, so that no package is compiled twice.
var buildFlags = []string{"-buildvcs=false", "-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=" + kubernetesVersion +
	" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"}

// build compiles what is not there yet, and returns the folder that the programs are in. The folder's name says what they are made
// from: Go, flags, and all versions.
func build(tell func(string, ...any)) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH, buildFlags, programs)
	for _, name := range []string{"go.mod", "go.sum", "metallb/main.go", "metallb/go.mod", "metallb/go.sum"} {
		data, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		_, _ = h.Write(data)
	}
	root := filepath.Join(cache, "copyhold-tests", "controlplane")
	dir := filepath.Join(root, fmt.Sprintf("%x", h.Sum(nil)[:8]))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	now := time.Now()
	_ = os.Chtimes(dir, now, now)
	forget(root, now.AddDate(0, 0, -14))
	for _, p := range programs {
		if _, err := os.Stat(filepath.Join(dir, p.name)); err == nil {
			continue
		}
		tell("building %s, which is kept in %s", p.name, dir)
		if err := buildOne(p.pkg, filepath.Join(dir, p.name), p.module); err != nil {
			return "", err
		}
		tell("%s is built", p.name)
	}
	return dir, nil
}

// buildOne compiles a program. It has its name only when it is whole.
func buildOne(pkg, out, module string) error {
	part := fmt.Sprintf("%s.%d.part", out, os.Getpid())
	defer os.Remove(part)
	c := exec.Command("go", append(append([]string{"build"}, buildFlags...), "-o", part, pkg)...)
	c.Dir = module
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if text, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, text)
	}
	return os.Rename(part, out)
}

// forget removes what no run has used for long.
func forget(root string, before time.Time) {
	folders, _ := os.ReadDir(root)
	for _, f := range folders {
		if info, err := f.Info(); err == nil && info.ModTime().Before(before) {
			_ = os.RemoveAll(filepath.Join(root, f.Name()))
		}
	}
}

// moduleDir is the folder of a module of a version that is named in full; the go command fetches it if need be.
func moduleDir(module string) (string, error) {
	c := exec.Command("go", "mod", "download", "-json", module)
	c.Env = append(os.Environ(), "GOWORK=off")
	c.Stderr = io.Discard // the answer has the error
	out, err := c.Output()
	var answer struct{ Dir, Error string }
	if e := json.Unmarshal(out, &answer); e != nil && err == nil {
		err = e
	}
	if err != nil || answer.Error != "" {
		return "", fmt.Errorf("go mod download %s: %v %s", module, err, strings.TrimSpace(answer.Error))
	}
	return answer.Dir, nil
}
