package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"copyhold.dev/copyhold/render/gate"
)

// API is what the gate asks of an API server.
type API interface {
	Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error
	List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error
	Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error
}

// NewAPI makes the client of an API server. Nothing is asked of it yet.
func NewAPI(config *restclient.Config) (API, error) {
	scheme := runtime.NewScheme()
	if err := eventsv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = restclient.CopyConfig(config)
	config.QPS, config.Burst = 100, 200 // of thousands of clusters each gets an Event
	config.UserAgent = "copyhold-gate"
	config.WarningHandler = restclient.NoWarnings{}
	return client.New(config, client.Options{Scheme: scheme})
}

// Gate compares what an application wants with what runs, writes the report to log, and an Event beside each Cluster whose machines are
// at stake. What it finds is no error: the gate is advisory. The error is for when it could not look, and could not leave an Event that
// says so either: it passes only when it leaves a trace.
type Gate struct {
	API      API
	Log      io.Writer
	Now      func() time.Time
	Patience time.Duration // how long an API server that does not answer is asked again
}

// Run does it.
func (g *Gate) Run(ctx context.Context, w gate.Wanted) error {
	look := &look{Gate: g, ctx: ctx, wanted: w}
	live, err := look.all()
	if err != nil {
		return fmt.Errorf("NOT CHECKED: nobody knows what this sync of %s does to machines: %w", w.Application, err)
	}
	report := gate.Compare(w, live)
	if len(report.Outcomes) > 0 { // machines are counted only where it matters
		if err := look.machines(report); err != nil {
			look.gap("the number of machines: "+err.Error(), "")
		}
		report = gate.Compare(w, look.live)
	}
	if _, err := io.WriteString(g.Log, report.Text()); err != nil {
		return err
	}
	return g.announce(ctx, report)
}

// announce writes the Events of a report.
func (g *Gate) announce(ctx context.Context, r gate.Report) error {
	s := scribe{Gate: g, ctx: ctx, job: r.Wanted.Job, refused: map[string]bool{}}
	events := r.Events()
	for _, e := range events {
		s.write(e)
	}
	told := true
	if len(r.Live.Gaps) > 0 {
		told = s.notChecked(r)
	}
	s.report(len(events))
	if r.Blind() && !told {
		return errors.New("NOT CHECKED: no Cluster could be looked at, and no Event says so")
	}
	return nil
}

// ask does a call until it is answered. What an API server refuses is an answer.
func (g *Gate) ask(ctx context.Context, call func(context.Context) error) error {
	const first, longest = 100 * time.Millisecond, 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, max(g.Patience, time.Millisecond)+30*time.Second) // the last call may have begun just before
	defer cancel()
	began := g.Now()
	for pause := first; ; pause = min(2*pause, longest) {
		err := call(ctx)
		if err == nil || answered(err) {
			return err
		}
		if g.Now().Sub(began)+pause > g.Patience {
			return fmt.Errorf("the API server has not answered for %s: %w", g.Patience, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API server does not answer: %w", err)
		case <-time.After(pause):
		}
	}
}

// answered reports whether asking again would get the same answer.
func answered(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || absent(err) ||
		apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsAlreadyExists(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsNotAcceptable(err)
}

// absent reports whether the API server has no such kind.
func absent(err error) bool {
	return meta.IsNoMatchError(err) || runtime.IsNotRegisteredError(err)
}

// hide notes that a namespace's Clusters could not be read.
func (l *look) hide(ns string) {
	if l.live.Unseen == nil {
		l.live.Unseen = map[string]bool{}
	}
	l.live.Unseen[ns] = true
}

// gap notes something that could not be looked at, once.
func (l *look) gap(what, hint string) {
	g := gate.Gap{What: what, Hint: hint}
	if !slices.Contains(l.live.Gaps, g) {
		l.live.Gaps = append(l.live.Gaps, g)
	}
}
