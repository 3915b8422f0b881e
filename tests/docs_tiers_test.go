package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

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
