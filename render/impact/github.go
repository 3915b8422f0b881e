package impact

import (
	"fmt"
	"io"
	"strings"
)

// GitHub writes a report as workflow commands, which GitHub shows at the lines of a pull request that caused it: an error for what may
// replace machines or worse, a warning for what rolls control planes, a notice for the rest.
func (r *Report) GitHub(w io.Writer) error {
	var b strings.Builder
	for _, d := range bySeverity(r.Clusters) {
		for _, c := range d.Changes {
			level := "notice"
			switch {
			case c.Action.AtLeast(Rollout):
				level = "error"
			case c.Action.AtLeast(ControlPlane):
				level = "warning"
			}
			at := d.at
			for _, cause := range c.Causes {
				if cause.pos.File != "" {
					at = cause.pos
					break
				}
			}
			place := ""
			if at.File != "" {
				place = fmt.Sprintf(" file=%s,line=%d,col=%d,", property(at.File), max(at.Line, 1), max(at.Col, 1))
			} else {
				place = " "
			}
			fmt.Fprintf(&b, "::%s%stitle=%s::%s\n", level, place, property(fmt.Sprintf("%s: %s", c.Action, d)), data(c.short(false)))
		}
	}
	for _, o := range r.Objects {
		if o.Action.AtLeast(ControlPlane) {
			fmt.Fprintf(&b, "::warning title=%s::%s\n", property(fmt.Sprintf("%s: %s %s", o.Action, o.Kind, o.Name)), data(o.Words))
		}
	}
	fmt.Fprintf(&b, "::notice title=copyhold::%s\n", data(strings.Join(append([]string{r.Total()}, r.foretold()...), "\n")))
	_, err := io.WriteString(w, b.String())
	return err
}

// data and property escape text as the runner's toolkit does (actions/toolkit, packages/core/src/command.ts).
func data(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func property(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(s)
}
