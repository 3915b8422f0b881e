package plugin

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/gate"
)

// controller is who Events are from.
const controller = "copyhold.dev/gate"

// reasonNotChecked is that of the Event beside the Job when something could not be looked at.
const reasonNotChecked = "GateNotChecked"

// scribe writes Events.
type scribe struct {
	*Gate
	ctx     context.Context
	job     string          // namespace/name
	n       int             // of Events tried, for their names
	written int             // of those asked for
	refused map[string]bool // namespaces where Events may not be created
	failed  error           // the last other failure
}

func (s *scribe) write(e gate.Event) {
	c := e.Cluster
	if s.create(c.Namespace, e.Reason, e.Note, corev1.ObjectReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Namespace: c.Namespace, Name: c.Name, UID: types.UID(c.UID),
	}) {
		s.written++
	}
}

// notChecked writes, beside the Job, what could not be looked at.
func (s *scribe) notChecked(r gate.Report) bool {
	ns, name, _ := strings.Cut(s.job, "/")
	var what []string
	for _, g := range r.Live.Gaps {
		what = append(what, g.What)
	}
	return s.create(ns, reasonNotChecked, gate.Shortened(strings.Join(what, "; ")), corev1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: ns, Name: name})
}

func (s *scribe) create(ns, reason, note string, regarding corev1.ObjectReference) bool {
	if s.refused[ns] || s.failed != nil {
		return false
	}
	s.n++
	now := s.Now()
	err := s.ask(s.ctx, func(ctx context.Context) error {
		return s.API.Create(ctx, &eventsv1.Event{
			// Each run has Events of its own: one that is left out because an earlier run had it would be missed.
			ObjectMeta:          metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("%s.%x.%x", regarding.Name, now.UnixNano(), s.n)},
			EventTime:           metav1.NewMicroTime(now),
			ReportingController: controller,
			ReportingInstance:   s.job,
			Action:              "Sync",
			Type:                corev1.EventTypeWarning,
			Reason:              reason,
			Regarding:           regarding,
			Note:                note,
		})
	})
	switch {
	case err == nil || apierrors.IsAlreadyExists(err):
		return true
	case apierrors.IsForbidden(err):
		s.refused[ns] = true
	default:
		s.failed = err
	}
	return false
}

// report says how many Events were written, of so many.
func (s *scribe) report(of int) {
	if of > 0 {
		fmt.Fprintf(s.Log, "wrote %d of %d Events\n", s.written, of)
	}
	for _, ns := range catalog.Sorted(s.refused) {
		fmt.Fprintf(s.Log, "no permission to create events.events.k8s.io in namespace %s\n  hint: %s\n", ns, grant(ns, "create", "events.events.k8s.io"))
	}
	if s.failed != nil {
		fmt.Fprintf(s.Log, "Events could not be written: %v\n", s.failed)
	}
}
