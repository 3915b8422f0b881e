package tests

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "copyhold.dev/copyhold/"

// layers are the packages from the bottom up. A package may import packages of lower layers only, or one of its own layer that
// is listed before it.
var layers = [][]string{
	{"render/diag"},
	{"render/strict", "render/gitsource"},
	{"catalog/ledger", "render/manifest", "catalog/chart", "catalog/overlay", "catalog/builtin", "catalog", "render/request", "render/topology", "render/gate"},
	{"render"},
	{"render/impact"},
	{"plugin"},
	{"cmd"},
	{"cmd/copyhold", "tests", "tests/bench", "tests/crds"},
}

// soleImporters are the heavy libraries and the one package each that may import them.
var soleImporters = map[string][]string{
	"helm.sh/helm/v3":                     {"catalog/chart"},
	"sigs.k8s.io/kustomize/api":           {"catalog/overlay"},
	"github.com/go-git/go-git/v5":         {"render/gitsource", "tests"},
	"github.com/argoproj/argo-cd/v2":      {"plugin"},
	"sigs.k8s.io/controller-runtime":      {"render/topology", "plugin"},
	"k8s.io/client-go":                    {"plugin", "cmd"},
	"github.com/spf13/cobra":              {"cmd"},
	"sigs.k8s.io/cluster-api/core":        {"render/topology"},
	"sigs.k8s.io/cluster-api/exp":         {"render/topology"},
	"sigs.k8s.io/cluster-api/util":        {"render/topology"},
	"sigs.k8s.io/cluster-api/feature":     {"render/topology"},
	"sigs.k8s.io/cluster-api/controllers": {"render/topology"},
}

// pure are the standard packages that the core must not import: its only input is a file tree.
var impure = []string{"os", "os/exec", "net/http", "time", "math/rand", "math/rand/v2", "crypto/rand"}

func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	rank := map[string]int{}
	for i, layer := range layers {
		for j, p := range layer {
			rank[p] = i*100 + j
		}
	}
	packages := 0
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		pkg := strings.TrimPrefix(words[0], module)
		packages++
		if _, ok := rank[pkg]; !ok {
			t.Errorf("package %s has no place in the layers of this test", pkg)
		}
		for _, imported := range words[1:] {
			if ours, ok := strings.CutPrefix(imported, module); ok && rank[ours] >= rank[pkg] {
				t.Errorf("%s imports %s, which is not below it", pkg, ours)
			}
			for lib, allowed := range soleImporters {
				if (imported == lib || strings.HasPrefix(imported, lib+"/")) && !slices.Contains(allowed, pkg) {
					t.Errorf("%s imports %s, which is for %s alone", pkg, imported, strings.Join(allowed, ", "))
				}
			}
			if slices.Contains(impure, imported) && (strings.HasPrefix(pkg, "render") || strings.HasPrefix(pkg, "catalog")) && pkg != "render/gitsource" {
				t.Errorf("%s imports %s: the core's only input is a file tree", pkg, imported)
			}
		}
	}
	if packages < 10 {
		t.Fatalf("go list named only %d packages", packages)
	}
}
