package plugin

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"copyhold.dev/copyhold/render/gate"
)

// account is the ServiceAccount of a gate's Job, as namespace/name.
func account(w gate.Wanted) string {
	ns, _, _ := strings.Cut(w.Job, "/")
	if w.Platform {
		return ns + "/" + gate.PlatformAccount
	}
	return ns + "/" + gate.Account
}

// roleOf is the Role that grants something in a namespace.
func roleOf(w gate.Wanted, ns, verb, resource string) string {
	jobs, _, _ := strings.Cut(w.Job, "/")
	switch {
	case verb == "get":
		return gate.ClassRole
	case w.Platform && ns == jobs && strings.HasPrefix(resource, "events."):
		return gate.PlatformAccount
	}
	return gate.Account
}

// refusal is what an API server does not let the gate do. Only for want of a permission is a Role the way out: what refuses an Event may be
// an admission policy or a quota as well, and what refuses a list the rule for the API server's discovery.
func refusal(w gate.Wanted, ns, verb, resource string, err error) gate.Gap {
	name, _, _ := strings.Cut(resource, ".")
	g := gate.Gap{What: fmt.Sprintf("no permission to %s %s in namespace %s", verb, resource, ns), Says: said(err)}
	if strings.Contains(g.Says, fmt.Sprintf("cannot %s resource %q", verb, name)) {
		g.Hint = fmt.Sprintf("Role and RoleBinding %s in namespace %s grant it to ServiceAccount %s: sync the platform application, which brings them (copyhold render prints them for the catalog's folder)",
			roleOf(w, ns, verb, resource), ns, account(w))
	}
	return g
}

// said is what an API server says, without what a client says around it.
func said(err error) string {
	var s apierrors.APIStatus
	if errors.As(err, &s) && s.Status().Message != "" {
		return s.Status().Message
	}
	return err.Error()
}
