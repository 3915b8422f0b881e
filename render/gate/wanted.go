// Package gate holds what is wanted of the clusters of an application against what runs, and says what a sync would do to machines. It
// asks nobody: what is wanted is text that was rendered, what runs is handed over.
//
// Wanted is what is rendered, Read and Text are its written form, Compare makes the Report, Report.Text is what a person reads.
package gate

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"copyhold.dev/copyhold/catalog"
)

// Version names the written form. A gate of another release may meet it: a Job keeps the image it was rendered with.
const Version = "copyhold.dev/gate/v1"

// Names of what the gate runs with. The platform's may run in the namespace of a tenant, or of classes, and so has others.
const (
	Account         = "copyhold-gate"          // the ServiceAccount of a tenant's gate, and the Role in that tenant's namespace
	PlatformAccount = "copyhold-gate-platform" // the ServiceAccount of the platform's gate, and the Role to leave an Event beside its Job
	ClassRole       = "copyhold-gate-classes"  // the Role where classes are, for all of them
)

// Wanted is what an application wants of clusters.
type Wanted struct {
	Head
	Classes  []Class
	Schemas  []Schema // of the platform's: what hashes are made with
	Clusters []Cluster
}

// Head is the first line of the written form.
type Head struct {
	Version     string   `json:"version"`
	Application string   `json:"application"`           // folder of the application
	Job         string   `json:"job"`                   // namespace/name of the hook
	Namespaces  []string `json:"namespaces,omitempty"`  // where Clusters are looked for
	Acknowledge bool     `json:"acknowledge,omitempty"` // the policy holds back rollouts of some of its clusters that nobody has accepted
	Platform    bool     `json:"platform,omitempty"`    // the application holds ClusterClasses, and Clusters are others' to bring and to prune
	Beside      []string `json:"beside,omitempty"`      // namespace/name of clusters that are asked for, and are another application's
	Count       int      `json:"count"`                 // of all lines that follow: a part must not be taken for the whole
}

// Class is a ClusterClass with the templates it names, as it is vendored.
type Class struct {
	Class     string            `json:"class"`               // namespace/name
	Digest    string            `json:"digest"`              // of the files, for people
	Templates []Template        `json:"templates,omitempty"` // kinds that it names
	Parts     map[string]string `json:"parts"`               // see catalog.ClassParts
}

// Schema is the CustomResourceDefinition of a kind of template, as the catalog has it.
type Schema struct {
	Schema string          `json:"schema"` // name of the definition
	Text   json.RawMessage `json:"text"`
}

// Template is a kind of template.
type Template struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Worker     bool   `json:"worker,omitempty"` // machines of workers are made from it
}

// Cluster is one that is asked for.
type Cluster struct {
	Cluster string            `json:"cluster"`           // namespace/name
	Unread  bool              `json:"unread,omitempty"`  // its request has an error, so nothing is known of what is wanted
	Class   string            `json:"class,omitempty"`   // namespace/name; empty: a chart of explicit objects makes it
	Version string            `json:"version,omitempty"` // of Kubernetes
	Parts   map[string]string `json:"parts,omitempty"`   // of spec.topology, see TopologyParts
	Pools   map[string]Pool   `json:"pools,omitempty"`   // by name
}

// Pool is one of its worker pools.
type Pool struct {
	Hash     string `json:"hash,omitempty"`     // rollout hash; empty where nobody can tell offline
	Accepted string `json:"accepted,omitempty"` // what the ledger says of what is wanted: yes, no, or empty when it has nothing of the pool
}

// Words of Pool.Accepted.
const (
	Accepted    = "yes"
	NotAccepted = "no"
)

// Text is the written form: lines of JSON, in the order of their names.
func (w Wanted) Text() ([]byte, error) {
	slices.SortFunc(w.Classes, func(a, b Class) int { return strings.Compare(a.Class, b.Class) })
	slices.SortFunc(w.Schemas, func(a, b Schema) int { return strings.Compare(a.Schema, b.Schema) })
	slices.SortFunc(w.Clusters, func(a, b Cluster) int { return strings.Compare(a.Cluster, b.Cluster) })
	w.Version, w.Count = Version, len(w.Classes)+len(w.Schemas)+len(w.Clusters)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	lines := []any{w.Head}
	for _, c := range w.Classes {
		lines = append(lines, c)
	}
	for _, c := range w.Schemas {
		lines = append(lines, c)
	}
	for _, c := range w.Clusters {
		lines = append(lines, c)
	}
	for _, l := range lines {
		if err := e.Encode(l); err != nil {
			return nil, fmt.Errorf("writing what the gate compares with: %w", err)
		}
	}
	return b.Bytes(), nil
}

// Sum is the digest of a written form: sha256 in hex.
func Sum(text []byte) string {
	h := sha256.Sum256(text)
	return hex.EncodeToString(h[:])
}

// MaxLine is how long a line may be, in bytes. A line is never split, and a ConfigMap holds one.
const MaxLine = 512 << 10

// Split cuts a written form at ends of lines, into chunks of at most size bytes, or of one line where that is longer.
func Split(text []byte, size int) []string {
	var out []string
	var b strings.Builder
	for line := range bytes.Lines(text) {
		if b.Len() > 0 && b.Len()+len(line) > size {
			out = append(out, b.String())
			b.Reset()
		}
		b.Write(line)
	}
	return append(out, b.String())
}

// Read reads the written form, all of it or nothing.
func Read(text []byte) (Wanted, error) {
	var w Wanted
	s := bufio.NewScanner(bytes.NewReader(text))
	s.Buffer(nil, MaxLine+2)
	n := 0
	for s.Scan() {
		n++
		if err := w.line(n, s.Bytes()); err != nil {
			return Wanted{}, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := s.Err(); err != nil {
		return Wanted{}, fmt.Errorf("line %d: %w", n+1, err)
	}
	switch {
	case n == 0:
		return Wanted{}, fmt.Errorf("it is empty")
	case n-1 != w.Count:
		return Wanted{}, fmt.Errorf("it has %d lines after the first, which promises %d", n-1, w.Count)
	}
	if err := w.check(); err != nil {
		return Wanted{}, err
	}
	return w, nil
}

// check refuses what would let the gate pass without a look: nowhere to look, a cluster where nobody looks, one that hides another.
func (w *Wanted) check() error {
	if len(w.Namespaces) == 0 && !w.Platform {
		return errors.New("it names no namespace to look in")
	}
	if ns, name, ok := strings.Cut(w.Job, "/"); !ok || ns == "" || name == "" {
		return fmt.Errorf("job %q, want namespace/name", w.Job)
	}
	looked, seen := map[string]bool{}, map[string]bool{}
	for _, ns := range w.Namespaces {
		looked[ns] = true
	}
	for _, c := range w.Clusters {
		ns, _, _ := strings.Cut(c.Cluster, "/")
		if !looked[ns] {
			return fmt.Errorf("cluster %q is in none of the namespaces to look in: %s", c.Cluster, some(w.Namespaces))
		}
		if seen[c.Cluster] {
			return fmt.Errorf("cluster %q is wanted twice", c.Cluster)
		}
		seen[c.Cluster] = true
	}
	return nil
}

func (w *Wanted) line(n int, line []byte) error {
	strictly := func(v any) error {
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		return d.Decode(v)
	}
	if n == 1 {
		if err := json.Unmarshal(line, &w.Head); err != nil {
			return err
		}
		if w.Version != Version {
			return fmt.Errorf("version %q, want %s: it was rendered by another release of copyhold", w.Version, Version)
		}
		return strictly(&w.Head)
	}
	if bytes.HasPrefix(line, []byte(`{"class":`)) {
		var c Class
		err := strictly(&c)
		w.Classes = append(w.Classes, c)
		return err
	}
	if bytes.HasPrefix(line, []byte(`{"schema":`)) {
		var c Schema
		err := strictly(&c)
		w.Schemas = append(w.Schemas, c)
		return err
	}
	var c Cluster
	err := strictly(&c)
	if err == nil && c.Cluster == "" {
		err = fmt.Errorf("it names neither a class nor a schema nor a cluster")
	}
	w.Clusters = append(w.Clusters, c)
	return err
}

// Definition is the schema of that name, as topology.NewSchemas wants it.
func (w *Wanted) Definition(crd string) ([]byte, error) {
	for _, s := range w.Schemas {
		if s.Schema == crd {
			return s.Text, nil
		}
	}
	return nil, fs.ErrNotExist
}

// class is a class that is wanted, nil when there is none of that name.
func (w *Wanted) class(name string) *Class {
	i := slices.IndexFunc(w.Classes, func(c Class) bool { return c.Class == name })
	if i < 0 {
		return nil
	}
	return &w.Classes[i]
}

// Namespaces are those of namespace/name names, each once, sorted.
func Namespaces(names []string) []string {
	all := map[string]bool{}
	for _, n := range names {
		ns, _, _ := strings.Cut(n, "/")
		all[ns] = true
	}
	return catalog.Sorted(all)
}
