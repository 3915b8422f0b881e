package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	requestBlock = regexp.MustCompile("(?s)```yaml\n# (tenants/[^\n]+)\n(.*?)```\n")
	sessionBlock = regexp.MustCompile("(?s)```console\n(.*?)```\n")
)

// The README is a session: its request is written to the file it names, its commands are run one after the other in one folder,
// and what they print is what the README says.
func TestREADME(t *testing.T) {
	const file = "../README.md"
	readme, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "repository")
	examples, err := filepath.Abs("../examples")
	if err != nil {
		t.Fatal(err)
	}
	request := requestBlock.FindStringSubmatch(string(readme))
	if request == nil {
		t.Fatal("the README has no request")
	}
	if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(request[1])), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, request[1]), []byte(request[2]), 0o644); err != nil {
		t.Fatal(err)
	}
	ran := 0
	got := sessionBlock.ReplaceAllStringFunc(string(readme), func(block string) string {
		out := "```console\n"
		for line := range strings.Lines(block) {
			command, ok := strings.CutPrefix(line, "$ ")
			if !ok {
				continue
			}
			c := exec.Command("sh", "-c", command)
			c.Dir = dir
			c.Env = append(os.Environ(), "NO_COLOR=1", "EXAMPLES="+examples,
				"GIT_AUTHOR_NAME=copyhold", "GIT_AUTHOR_EMAIL=copyhold@example.org", "GIT_COMMITTER_NAME=copyhold", "GIT_COMMITTER_EMAIL=copyhold@example.org")
			printed, _ := c.CombinedOutput() // the README shows failures too
			out += line + string(printed)
			ran++
		}
		return out + "```\n"
	})
	if ran < 4 {
		t.Fatalf("only %d commands in the README", ran)
	}
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(string(readme), got); d != "" {
		t.Errorf("the README (-written +run):\n%s", d)
	}
}
