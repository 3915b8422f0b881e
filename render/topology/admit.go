package topology

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"copyhold.dev/copyhold/render/manifest"
)

// Problem is one thing that Cluster API refuses.
type Problem struct {
	Field  string // where, as Cluster API writes it: spec.topology.variables[machineSize].value
	Type   string // its kind, as apimachinery names it: FieldValueInvalid, FieldValueRequired, ...
	Detail string // in Cluster API's words, on one line
}

// Admit runs Cluster API's admission of a new Cluster on the object: the defaulting webhook, which also validates the variables,
// then the validating one (core/webhooks/admission/cluster.go). It returns the Cluster as the API server would store it, or the
// problems for which it would refuse it. The object handed in is not changed.
//
// Answers are kept by content: Clusters of one class that differ only in name share one.
func (c *Class) Admit(o *manifest.Object) (*manifest.Object, []Problem, error) {
	key, err := json.Marshal([]any{o.Object["spec"], o.GetAnnotations(), o.GetLabels()})
	if err != nil {
		return nil, nil, fmt.Errorf("reading Cluster %s: %w", o.GetName(), err)
	}
	a := c.memo.do(sha256.Sum256(key), func() admitted { return c.admit(o) })
	if a.err != nil || len(a.problems) > 0 {
		return nil, a.problems, a.err
	}
	out := o.DeepCopy()
	out.Object["spec"] = runtime.DeepCopyJSONValue(a.spec)
	return out, nil, nil
}

type admitted struct {
	spec     any
	problems []Problem
	err      error
}

func (c *Class) admit(o *manifest.Object) admitted {
	ctx := context.Background()
	cl := &clusterv1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, cl, true); err != nil {
		return admitted{problems: []Problem{{Detail: err.Error()}}}
	}
	if cl.GetClassKey() != client.ObjectKeyFromObject(c.class) {
		return admitted{err: fmt.Errorf("the class of Cluster %s is %s, not %s", o.GetName(), cl.GetClassKey(), c.Key())}
	}
	// A name is judged where it was written; here only what Clusters of any name share is judged.
	cl.Name, cl.Namespace = "x", "x"
	var problems []Problem
	if err := c.webhook.Default(ctx, cl); err != nil {
		problems = problemsOf(err)
	}
	if _, err := c.webhook.ValidateCreate(ctx, cl); err != nil { // an API server would stop at the first; a person wants them all
		problems = append(problems, problemsOf(err)...)
	}
	if len(problems) > 0 {
		return admitted{problems: problems}
	}
	u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cl)
	if err != nil {
		return admitted{err: fmt.Errorf("writing Cluster %s: %w", o.GetName(), err)}
	}
	return admitted{spec: u["spec"]}
}

// problemsOf takes an admission error apart.
func problemsOf(err error) []Problem {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) == 0 {
		return []Problem{{Detail: err.Error()}}
	}
	var out []Problem
	for _, c := range status.ErrStatus.Details.Causes {
		out = append(out, Problem{Field: c.Field, Type: string(c.Type), Detail: c.Message})
	}
	return out
}

// mostAnswers bounds how many are kept: with their objects they are large.
const mostAnswers = 128

// memo keeps answers by content; each is worked out once even when several goroutines ask at a time.
type memo[A any] struct {
	mu      sync.Mutex
	answers map[[sha256.Size]byte]func() A
}

func newMemo[A any]() *memo[A] { return &memo[A]{answers: map[[sha256.Size]byte]func() A{}} }

func (m *memo[A]) do(key [sha256.Size]byte, work func() A) A {
	m.mu.Lock()
	f := m.answers[key]
	if f == nil {
		if len(m.answers) >= mostAnswers { // those that are at work have their answer in hand
			clear(m.answers)
		}
		f = sync.OnceValue(work)
		m.answers[key] = f
	}
	m.mu.Unlock()
	return f()
}
