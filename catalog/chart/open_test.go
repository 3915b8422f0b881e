package chart

import (
	"slices"
	"testing"

	"copyhold.dev/copyhold/render/diag"
)

// A chart that is opened once is looked at again when values switch another subchart on, and subcharts keep their own schemas.
func TestOpenWithSubcharts(t *testing.T) {
	const files = `
-- solar/Chart.yaml --
apiVersion: v2
name: solar
version: 1.0.0
dependencies:
- {name: sub, version: 1.0.0, condition: sub.enabled}
-- solar/values.yaml --
sub: {enabled: false, size: 1}
-- solar/templates/own.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: own}
-- solar/charts/sub/Chart.yaml --
apiVersion: v2
name: sub
version: 1.0.0
-- solar/charts/sub/values.schema.json --
{"properties": {"size": {"type": "integer"}}}
-- solar/charts/sub/templates/made.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: sub}
data: {size: "{{ .Values.size }}", year: "YEAR"}
`
	sub := func(enabled bool, size any) Options {
		return Options{Name: "solar", Namespace: "photon-prod", Values: map[string]any{"sub": map[string]any{"enabled": enabled, "size": size}}}
	}
	for _, c := range []struct {
		year string
		with Options
		want string // a finding; "" for none
	}{
		{"{{ now | date \"2006\" }}", sub(false, 1), ""},
		{"{{ now | date \"2006\" }}", sub(true, 1), "chart/not-repeatable"},
		{"2026", sub(true, 1), ""},
		{"2026", sub(true, "one"), "chart/values"},
		{"2026", sub(false, "one"), ""},
	} {
		fsys := tree(t, files)
		made := fsys["solar/charts/sub/templates/made.yaml"]
		made.Data = []byte(string(made.Data[:len(made.Data)-len("YEAR\"}\n")]) + c.year + "\"}\n")
		opened, found, err := Open(fsys, "solar")
		if err != nil || len(found) > 0 {
			t.Fatal(err, found)
		}
		objects, found := opened.Render(c.with)
		if c.want == "" {
			if len(found) > 0 || len(objects) == 0 {
				t.Errorf("%s with %v: %d objects, %s", c.year, c.with.Values, len(objects), found)
			}
			continue
		}
		if len(objects) > 0 || !slices.ContainsFunc(found, func(f diag.Finding) bool { return f.Name == c.want }) {
			t.Errorf("%s with %v: %d objects, want %s: %s", c.year, c.with.Values, len(objects), c.want, found)
		}
	}
}
