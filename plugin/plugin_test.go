package plugin

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The image has the configuration where Argo CD's server looks for it, and the configuration has keys that the server reads and no
// others: it passes over a misspelt one in silence.
func TestConfig(t *testing.T) {
	dockerfile, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	if line := "COPY plugin/plugin.yaml " + ConfigPath + "\n"; !strings.Contains(string(dockerfile), line) {
		t.Errorf("the Dockerfile has no line %q", line)
	}
	type command struct {
		Command []string `json:"command"`
	}
	var c struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct { // no discovery, and no version, which would become part of the plugin's name
			Generate   command `json:"generate"`
			Parameters struct {
				Dynamic command `json:"dynamic"`
			} `json:"parameters"`
		} `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(Config(), &c); err != nil {
		t.Fatal(err)
	}
	if c.APIVersion != "argoproj.io/v1alpha1" || c.Kind != "ConfigManagementPlugin" || c.Metadata.Name != "copyhold" ||
		strings.Join(c.Spec.Generate.Command, " ") != "copyhold plugin generate" || strings.Join(c.Spec.Parameters.Dynamic.Command, " ") != "copyhold plugin parameters" {
		t.Errorf("plugin.yaml is %+v", c)
	}
}
