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

*If held back* and *unless held back*: whether a worker pool with ` + "`deferUpgrade`" + ` is held back from an upgrade stands in the management cluster
only, so ` + "`diff`" + ` says that it depends on that. Whether the outcome is the one that holds for the cluster of the edit, is checked.

| edit | predicted | observed |
|---|---|---|
`

const reportTail = `
In each of these edits the rollout annotation of a worker pool changes exactly where a new MachineSet appears, but for those below. They are all
about deferred pools.

| edit | the annotation changes, and no machine is replaced |
|---|---|
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
	exceptions := ""
	for _, e := range all {
		o := outcomes.m[e.name]
		fmt.Fprintf(&b, "| %s | %s | %s |\n", o.edit, o.predicted, o.observed)
		if o.hash != "" {
			exceptions += fmt.Sprintf("| %s | %s |\n", o.edit, o.hash)
		}
	}
	b.WriteString(reportTail + exceptions)
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
