package controlplane

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"time"
)

// watch reads the managers' log, in which controller-runtime tells of the start and the end of each reconcile. So a test knows that what
// it did has been looked at, and that nothing is going on any more, where the objects would not show it.
type watch struct {
	mu   sync.Mutex
	open map[string]string    // namespace by reconcileID
	last map[string]time.Time // last start or end in a namespace
	seen map[string]time.Time // start of the latest finished reconcile, by controller and namespace/name
	from map[string]time.Time // start of a running reconcile by reconcileID
	due  map[string]time.Time // when the next reconcile is due in a namespace, if that is soon
}

func newWatch() *watch {
	return &watch{open: map[string]string{}, last: map[string]time.Time{}, seen: map[string]time.Time{}, from: map[string]time.Time{}, due: map[string]time.Time{}}
}

// log is where one manager's log goes.
type log struct {
	*watch
	rest []byte
}

// Write takes the log as it comes.
func (l *log) Write(data []byte) (int, error) {
	l.rest = append(l.rest, data...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return len(data), nil
		}
		l.rest = rest
		if bytes.Contains(line, []byte(`"reconcileID"`)) {
			l.line(line)
		}
	}
}

func (w *watch) line(data []byte) {
	var l struct{ Msg, Controller, ControllerKind, ReconcileID string }
	var all map[string]json.RawMessage
	var of struct{ Namespace, Name string }
	// The object is under its kind. The cache of connections to tenants' clusters looks at them all the time.
	if json.Unmarshal(data, &l) != nil || l.Controller == "clustercache" || json.Unmarshal(data, &all) != nil || json.Unmarshal(all[l.ControllerKind], &of) != nil {
		return
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case l.Msg == "Reconciling":
		w.open[l.ReconcileID], w.from[l.ReconcileID] = of.Namespace, now
	case l.Msg == "Reconcile successful", l.Msg == "Reconciler error", strings.HasPrefix(l.Msg, "Reconcile done"):
		w.seen[l.Controller+" "+of.Namespace+"/"+of.Name] = w.from[l.ReconcileID]
		delete(w.open, l.ReconcileID)
		delete(w.from, l.ReconcileID)
		// Reconciles of one object are spaced by a second: one that comes too early is put off.
		_, after, _ := strings.Cut(l.Msg, "requeueing after ")
		if d, err := time.ParseDuration(after); err == nil && d < 3*time.Second && now.Add(d).After(w.due[of.Namespace]) {
			w.due[of.Namespace] = now.Add(d)
		}
	default:
		return
	}
	w.last[of.Namespace] = now
}

// idle is how long no reconcile has been started or ended in any of the namespaces. It is 0 while one runs.
func (w *watch) idle(namespaces ...string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	idle := time.Hour
	for _, ns := range namespaces {
		for _, open := range w.open {
			if open == ns {
				return 0
			}
		}
		idle = min(idle, time.Since(w.last[ns]), max(0, time.Since(w.due[ns])))
	}
	return idle
}

// since reports whether a controller has finished a reconcile of an object that it began after a time.
func (w *watch) since(controller, namespace, name string, t time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[controller+" "+namespace+"/"+name].After(t)
}
