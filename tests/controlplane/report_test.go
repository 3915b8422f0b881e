package controlplane

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const reportFile = "../../docs/prediction-report.md"

const reportHead = `# Predictions and what came of them

Each line is one edit of a tenants repository whose clusters run on a real API server with Cluster API v1.14.2. *Predicted* is what
` + "`copyhold diff`" + ` says of it, *observed* is what MachineSets, templates and control planes show once the edit is applied and Cluster API is at
rest. ` + "`latent`" + ` is a rollout that came with the next reconcile only; ` + "`rejected`" + ` was refused by copyhold itself or by the API server. The
infrastructure behind Cluster API is played by the test. ` + "`make controlplane`" + ` makes all edits, and fails where an outcome is not as it stands here.

Where the two columns differ copyhold says what may happen: whether a worker pool is held back is known in the management cluster only.

| edit | predicted | observed |
|---|---|---|
`

// writeReport compares the page with what has been seen, or writes it.
func writeReport(t *testing.T, all []edit) {
	t.Helper()
	var b strings.Builder
	b.WriteString(reportHead)
	outcomes.Lock()
	defer outcomes.Unlock()
	if len(outcomes.m) != len(all) {
		return // -run has left out some, or they have failed to say
	}
	for _, e := range all {
		o := outcomes.m[e.name]
		fmt.Fprintf(&b, "| %s | %s | %s |\n", o.edit, o.predicted, o.observed)
	}
	if *update {
		if err := os.WriteFile(reportFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(reportFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != b.String() {
		t.Errorf("%s is not what has been seen; go test -run PredictionsComeTrue -update rewrites it:\n%s", reportFile, b.String())
	}
}
