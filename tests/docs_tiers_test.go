package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
)

// chartFinding is the name of a finding about a chart: in the source a string, on the page in backticks.
var chartFinding = regexp.MustCompile("[\"`](chart/[a-z-]+)[\"`]")

// The page's table of findings has all there are about charts, and no other.
func TestTiersPageFindings(t *testing.T) {
	page, err := os.ReadFile("../docs/tiers.md")
	if err != nil {
		t.Fatal(err)
	}
	names := func(text []byte, into map[string]bool) {
		for _, m := range chartFinding.FindAllSubmatch(text, -1) {
			into[string(m[1])] = true
		}
	}
	shown, there := map[string]bool{}, map[string]bool{}
	names(page, shown)
	for _, dir := range []string{"../catalog", "../render"} {
		err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			data, err := os.ReadFile(name)
			names(data, there)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range there {
		if !shown[name] {
			t.Errorf("the page has no finding %s", name)
		}
	}
	for name := range shown {
		if !there[name] {
			t.Errorf("there is no finding %s", name)
		}
	}
}

// What the page shows of a request that is wrong is what is said of it.
func TestTiersPageMessage(t *testing.T) {
	page, err := os.ReadFile("../docs/tiers.md")
	if err != nil {
		t.Fatal(err)
	}
	tree := tiersExample(t, [3]string{"tenants/photon-prod/comet.yaml", "nodePort: 30443", "nodePort: 6443"})
	delete(tree, "ledger/clusters/photon-prod/comet.yaml") // what runs is only warned
	_, _, found, err := render.Render(tree, "tenants/photon-prod")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(found, func(f diag.Finding) bool { return f.Name == "port/outside" })
	if i < 0 || !strings.Contains(string(page), "\n    "+found[i].String()+"\n") {
		t.Errorf("the page does not show %s", found)
	}
}

var exampleBlock = regexp.MustCompile("(?s)```yaml\n# ((?:tenants|rendered|catalog)/[^\n]+)\n(.*?)```\n")

// docs/tiers.md shows what examples/tiers holds: requests word for word, and of what is rendered some lines in their order.
func TestTiersPage(t *testing.T) {
	page, err := os.ReadFile("../docs/tiers.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, m := range exampleBlock.FindAllStringSubmatch(string(page), -1) {
		file, text := m[1], m[2]
		shown[file] = true
		data, err := os.ReadFile(filepath.Join("../examples/tiers", file))
		if err != nil {
			t.Error(err)
			continue
		}
		if strings.HasPrefix(file, "tenants/") {
			if string(data) != text {
				t.Errorf("%s is not what the page shows:\n%s", file, text)
			}
			continue
		}
		lines := strings.Split(string(data), "\n")
		for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
			line, _, _ = strings.Cut(line, "  # ")
			line = strings.TrimRight(line, " ")
			found := false
			for len(lines) > 0 && !found {
				found, lines = lines[0] == line, lines[1:]
			}
			if !found {
				t.Errorf("%s has no line %q after those before it", file, line)
				break
			}
		}
	}
	if len(shown) < 10 {
		t.Errorf("the page shows %d files only", len(shown))
	}
	for _, name := range []string{"kamaji", "kubevirt", "proxmox", "nutanix", "metal-stack", "packet", "hetzner"} {
		if !strings.Contains(string(page), "\n## "+name+"\n") {
			t.Errorf("the page says nothing of tier %s", name)
		}
	}
}
