package plugin

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"copyhold.dev/copyhold/render/diag"
)

func TestMessage(t *testing.T) {
	found := diag.List{diag.Warnf(diag.Pos{File: "a"}, "x/warning", "first by place, last by weight"), diag.Errorf(diag.Pos{File: "b"}, "x/error", "broken").Hintf("mend it")}
	if got, want := Message(found), "b: broken [x/error]\n  hint: mend it\na: warning: first by place, last by weight [x/warning]\n"; got != want {
		t.Errorf("Message = %q, want %q", got, want)
	}
	for i := range 500 {
		found.Add(diag.Errorf(diag.Pos{File: fmt.Sprintf("c%03d", i)}, "x/error", "broken"))
	}
	got := Message(found)
	if len(got) > MaxMessage || len(got) < MaxMessage-200 || !strings.HasPrefix(got, "b: broken") || !strings.HasSuffix(got, "[x/error]\n... and more: copyhold check shows them all\n") {
		t.Errorf("Message of 502 findings has %d bytes and ends in %q", len(got), got[max(0, len(got)-100):])
	}
}

func TestStrict(t *testing.T) {
	got := Strict(diag.List{diag.Warnf(diag.Pos{}, "catalog/placeholder", "p"), diag.Warnf(diag.Pos{}, "x/y", "w")})
	if got[0].Severity != diag.Error || got[1].Severity != diag.Warning {
		t.Errorf("Strict = %v", got)
	}
}

// The image has the configuration where Argo CD's server looks for it, and the configuration has the keys that the server reads.
func TestConfig(t *testing.T) {
	dockerfile, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	if line := "COPY plugin/plugin.yaml " + ConfigPath + "\n"; !strings.Contains(string(dockerfile), line) {
		t.Errorf("the Dockerfile has no line %q", line)
	}
	var c struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			Generate struct {
				Command []string `json:"command"`
			} `json:"generate"`
		} `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(Config(), &c); err != nil {
		t.Fatal(err)
	}
	if c.Kind != "ConfigManagementPlugin" || c.Metadata.Name != "copyhold" || strings.Join(c.Spec.Generate.Command, " ") != "copyhold plugin generate" {
		t.Errorf("plugin.yaml is %+v", c)
	}
}
