package plugin

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/diag"
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
	wanted  gate.Wanted
	n       int                 // of Events tried, for their names
	written int                 // of those asked for
	refused map[string]gate.Gap // by namespace: an API server that refuses one Event there is not asked for another
	failed  error               // of an API server that does not answer: it is not asked again
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
	ns, name, _ := strings.Cut(s.wanted.Job, "/")
	var what []string
	for _, g := range r.Live.Gaps {
		what = append(what, g.What)
	}
	return s.create(ns, reasonNotChecked, gate.Shortened(strings.Join(what, "; ")), corev1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: ns, Name: name})
}

func (s *scribe) create(ns, reason, note string, regarding corev1.ObjectReference) bool {
	if _, refused := s.refused[ns]; refused || s.failed != nil {
		return false
	}
	s.n++
	now := s.Now()
	_, err := ask(s.ctx, s.Gate, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.API.Create(ctx, &eventsv1.Event{
			ObjectMeta:          metav1.ObjectMeta{Namespace: ns, Name: eventName(regarding.Name, now, s.n)},
			EventTime:           metav1.NewMicroTime(now),
			ReportingController: controller,
			ReportingInstance:   s.wanted.Job,
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
		s.refused[ns] = refusal(s.wanted, ns, "create", "events.events.k8s.io", err)
	case answered(err) && !apierrors.IsUnauthorized(err):
		s.refused[ns] = gate.Gap{What: "no Event could be written in namespace " + ns, Says: said(err)}
	default:
		s.failed = err
	}
	return false
}

// eventName is a name that no other Event has: each run has its own, and one that is left out because an earlier run had it would be
// missed. A Cluster's name may be as long as an Event's.
func eventName(of string, now time.Time, n int) string {
	suffix := fmt.Sprintf(".%x.%x", now.UnixNano(), n)
	if most := validation.DNS1123SubdomainMaxLength - len(suffix); len(of) > most {
		of = strings.TrimRight(of[:most], ".-")
	}
	return of + suffix
}

// report says how many Events were written, of so many, and once why there are no more.
func (s *scribe) report(of int) {
	if of > 0 {
		fmt.Fprintf(s.Log, "wrote %d of %d Events\n", s.written, of)
	}
	for i, ns := range catalog.Sorted(s.refused) {
		if i > 0 {
			fmt.Fprintf(s.Log, "nor in %d more namespaces, %s the first\n", len(s.refused)-1, ns)
			break
		}
		io.WriteString(s.Log, s.refused[ns].Text())
	}
	if s.failed != nil {
		fmt.Fprintf(s.Log, "Events could not be written: %s\n", diag.OneLine(s.failed.Error()))
	}
}
