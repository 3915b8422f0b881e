package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
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
	RESTMapper() meta.RESTMapper
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
// says so either: it passes only when it leaves a trace. Where the policy wants each rollout accepted, the Event is not enough.
type Gate struct {
	API      API
	Server   string // where the API server is, for messages
	Log      io.Writer
	Now      func() time.Time
	Patience time.Duration // how long an API server that does not answer is asked again
	Deadline time.Duration // how long all of it may take; 0: any time
}

// Run does it.
func (g *Gate) Run(ctx context.Context, w gate.Wanted) error {
	ctx, done := g.within(ctx, g.Deadline)
	defer done()
	looking, stop := g.within(ctx, g.Deadline*3/4) // the rest is for Events
	defer stop()
	look := &look{Gate: g, ctx: looking, wanted: w}
	live, err := look.all()
	if err != nil {
		return fmt.Errorf("NOT CHECKED: nobody knows what this sync of %s does to machines: %w", w.Application, err)
	}
	report := gate.Compare(w, live)
	if len(report.Outcomes) > 0 { // machines are counted only where it matters
		if err := look.machines(report); err != nil {
			look.gap(gate.Gap{What: "the number of machines: " + err.Error()})
		}
		report = gate.Compare(w, look.live)
	}
	if _, err := io.WriteString(g.Log, report.Text()); err != nil {
		return err
	}
	return g.announce(ctx, report)
}

// within bounds what is asked of the API server, and says so when the time is up.
func (g *Gate) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%s did not answer all that was asked within %s: where it is only slow, give the gate more time, with gate.deadlineSeconds in the catalog or --deadline", g.server(), d))
}

// server names the API server in a message.
func (g *Gate) server() string {
	if g.Server == "" {
		return "the API server"
	}
	return "the API server at " + g.Server
}

// announce writes the Events of a report.
func (g *Gate) announce(ctx context.Context, r gate.Report) error {
	s := scribe{Gate: g, ctx: ctx, wanted: r.Wanted, refused: map[string]gate.Gap{}}
	events := r.Events()
	for _, e := range events {
		s.write(e)
	}
	told := true
	if len(r.Live.Gaps) > 0 {
		told = s.notChecked(r)
	}
	s.report(len(events))
	switch {
	case r.Blind() && !told:
		return errors.New("NOT CHECKED: no Cluster could be looked at, and no Event says so")
	case r.Blind() && r.Wanted.Acknowledge:
		return errors.New("NOT CHECKED: no Cluster could be looked at, and the policy acknowledge lets no rollout pass that nobody has seen")
	}
	return nil
}

// longestCall is how long one call may take. An API server that takes a connection and says nothing would be waited for without end.
const longestCall = 30 * time.Second

// ask does a call until it is answered. What an API server refuses is an answer.
func ask[T any](ctx context.Context, g *Gate, call func(context.Context) (T, error)) (T, error) {
	const first, longest = 100 * time.Millisecond, 5 * time.Second
	began := g.Now()
	for pause := first; ; pause = min(2*pause, longest) {
		v, err := once(ctx, call)
		if err == nil || answered(err) {
			return v, err
		}
		if ctx.Err() == nil && g.Now().Sub(began)+pause > g.Patience {
			return v, fmt.Errorf("%s has not answered for %s: %w", g.server(), g.Patience, err)
		}
		select {
		case <-ctx.Done():
			return v, fmt.Errorf("%w (%v)", context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

// once does a call, and leaves it alone when its time is up: the client looks for kinds without regard to a context.
func once[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	ctx, cancel := context.WithTimeout(ctx, longestCall)
	defer cancel()
	c := make(chan answer, 1)
	go func() {
		v, err := call(ctx)
		c <- answer{v, err}
	}()
	select {
	case a := <-c:
		return a.v, a.err
	case <-ctx.Done():
		var none T
		return none, errSilent
	}
}

var errSilent = errors.New("the last call got no answer")

// answered reports whether asking again would get the same answer.
func answered(err error) bool {
	if absent(err) {
		return true
	}
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return false
	}
	code := s.Status().Code
	return code >= 400 && code < 500 && code != http.StatusRequestTimeout && code != http.StatusTooManyRequests
}

// noSuchKind reports whether the API server does not have a kind that was to be listed.
func noSuchKind(err error) bool { return absent(err) || apierrors.IsNotFound(err) }

// absent reports whether the API server has no such kind.
func absent(err error) bool {
	return meta.IsNoMatchError(err) || runtime.IsNotRegisteredError(err)
}
