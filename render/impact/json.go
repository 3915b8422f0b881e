package impact

import (
	"encoding/json"
	"io"
)

// JSON writes a report for programs. The form is that of the types in this package; docs/impact.md describes it.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Nothing is the report of a change that bears on no tenant.
func Nothing(skipped int) *Report {
	return &Report{Version: FormatVersion, Clusters: []*Diff{}, Objects: []Object{}, Classes: []Class{}, Notes: []string{}, Skipped: skipped}
}
