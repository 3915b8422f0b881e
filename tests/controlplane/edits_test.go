package controlplane

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// An edit is one change of a repository that has been applied, and runs.
type edit struct {
	name    string
	prepare func(repository) // makes the base another one than usual; may be nil
	change  func(repository)
	class   bool // the base is on the class that is exported: see exported.yaml
	chart   bool // the base is on the built-in tier kubevirt, a chart of explicit objects

	first func(repository) // an edit that is made before, and runs; may be nil
	lift  func(repository) // an edit that is made afterwards, and ends what holds a pool back; may be nil
	hash  string           // why the rollout annotation does not tell of a MachineSet here
}

// outcome is a line of the report.
type outcome struct{ edit, predicted, observed, hash string }

var outcomes = struct {
	sync.Mutex
	m map[string]outcome
}{m: map[string]outcome{}}

// TestPredictionsComeTrue makes one edit after another, each on clusters of its own, and compares what copyhold diff has said with what
// Cluster API did.
func TestPredictionsComeTrue(t *testing.T) {
	t.Parallel()
	all := slices.Concat(requestEdits, chartEdits, classEdits, explicitEdits)
	t.Run("edits", func(t *testing.T) {
		for i, e := range all {
			t.Run(e.name, func(t *testing.T) {
				t.Parallel()
				o := try(t, fmt.Sprintf("edit-%d", i), e)
				outcomes.Lock()
				defer outcomes.Unlock()
				outcomes.m[e.name] = o
				tell("%d of %d: %s: %s", len(outcomes.m), len(all), e.name, o.observed)
			})
		}
	})
	writeReport(t, all)
}

func try(t *testing.T, namespace string, e edit) outcome {
	base := baseOf(t, namespace, e)
	w := newWorld(t, namespace, namespace+"-classes")
	was := w.build(base)
	if e.first != nil { // an edit that has been made before
		e.first(base)
		allocated(base)
		was, _ = w.make(base, was)
	}
	edited := copyOf(t, base.root)
	e.change(edited)
	allocated(edited)
	before := w.look()
	report := edited.diff(base)
	predicted, words := prediction(report, nil)
	expected, _ := prediction(report, before)

	now, refused := w.makePlatform(edited, was)
	atOnce := happened(before, w.look())
	now, refused = w.makeTenants(edited, now, refused)
	if !equal(specs(was, namespace), specs(now, namespace)) {
		atOnce = happened(before, w.look())
	}
	// What has not happened by now, happens with the next look that Cluster API takes, if at all. A sync that brings nothing but another
	// rollout annotation is such a reason to look, too.
	w.touch()
	later := w.look()
	observed, late := happened(before, later), []string(nil)
	for i, x := range observed {
		if !slices.Contains(atOnce, x) {
			observed[i] = strings.Replace(x, " rollout", " latent", 1)
			late = append(late, x)
		}
	}
	for _, name := range refused {
		if !slices.Contains(observed, name+" frozen") { // of which the Cluster is not rendered either
			observed = append(observed, name+" rejected")
		}
	}
	slices.Sort(observed)
	o := outcome{e.name, short(predicted, namespace), short(observed, namespace), e.hash}
	if !slices.Equal(expected, observed) {
		t.Errorf("copyhold says %q\n%s\nCluster API does %q, of which %q late", o.predicted, words, o.observed, late)
	}
	if !strings.Contains(o.observed, "frozen") {
		annotated(t, hashes(was), hashes(now), newSets(before, later), e.hash != "")
	}
	if e.lift != nil {
		e.lift(edited)
		allocated(edited)
		_, _ = w.make(edited, now)
		w.touch()
		if !slices.Contains(happened(later, w.look()), namespace+"/solar md-0 rollout") {
			t.Errorf("what was held back does not come once nothing holds it back any more")
		}
		o.observed += "; once deferUpgrade is taken away: solar md-0 rollout"
	}
	return o
}

// build applies a repository, and waits until its clusters are there.
func (w *world) build(r repository) []*unstructured.Unstructured {
	w.t.Helper()
	platform, tenants := r.render("catalog"), r.render("tenants/"+r.tenant())
	for _, objects := range [][]*unstructured.Unstructured{platform, tenants} {
		if err := w.apply(objects); err != nil {
			w.t.Fatal(err)
		}
		w.settle(time.Time{})
	}
	w.arrived()
	return slices.Concat(platform, tenants)
}

// make syncs what an edited repository renders, and waits until all has come of it. There are two applications: what one of them does
// not render stays as it is. Clusters that cannot be rendered or that the API server refuses are named.
func (w *world) make(edited repository, was []*unstructured.Unstructured) (now []*unstructured.Unstructured, refused []string) {
	w.t.Helper()
	now, refused = w.makePlatform(edited, was)
	return w.makeTenants(edited, now, refused)
}

func (w *world) makePlatform(edited repository, was []*unstructured.Unstructured) (now []*unstructured.Unstructured, refused []string) {
	w.t.Helper()
	platform, tenants := parts(was, edited.tenant())
	now, ok := w.makeApp(edited, "catalog", platform)
	if !ok {
		refused = names(tenants)
	}
	return slices.Concat(now, tenants), refused
}

func (w *world) makeTenants(edited repository, was []*unstructured.Unstructured, refused []string) ([]*unstructured.Unstructured, []string) {
	w.t.Helper()
	platform, tenants := parts(was, edited.tenant())
	now, ok := w.makeApp(edited, "tenants/"+edited.tenant(), tenants)
	if !ok && len(refused) == 0 {
		refused = names(tenants)
	}
	return slices.Concat(platform, now), refused
}

// makeApp syncs one application. If it is refused, by copyhold or the API server, what was there stays.
func (w *world) makeApp(edited repository, path string, was []*unstructured.Unstructured) (now []*unstructured.Unstructured, ok bool) {
	w.t.Helper()
	out, complaint, err := edited.run("render", path)
	if err != nil {
		w.t.Logf("copyhold render %s: %s", path, complaint)
		return was, false
	}
	if now, err = parseObjects(string(out)); err != nil {
		w.t.Fatal(err)
	}
	if equal(was, now) {
		return now, true
	}
	start, before := time.Now(), w.generations()
	if err := w.sync(was, now); err != nil {
		w.t.Logf("the API server: %v", err)
		return was, false
	}
	w.settle(start, noticed(before, w.generations())...)
	return now, true
}

// specs are the specs of Clusters and of what charts make beside them.
func specs(objects []*unstructured.Unstructured, tenant string) map[string]any {
	out := map[string]any{}
	_, tenants := parts(objects, tenant)
	for _, o := range tenants {
		if o.GetKind() != "SubnetClaim" {
			out[o.GetKind()+" "+o.GetName()] = o.Object["spec"]
		}
	}
	return out
}

func names(objects []*unstructured.Unstructured) []string {
	var out []string
	for _, o := range objects {
		if o.GetKind() == "Cluster" {
			out = append(out, o.GetNamespace()+"/"+o.GetName())
		}
	}
	return out
}

// generations are those of Clusters and ClusterClasses, by kind, namespace and name.
func (w *world) generations() map[string]int64 {
	w.t.Helper()
	out := map[string]int64{}
	for _, o := range slices.Concat(w.list(clusters), w.list(clusterClasses)) {
		out[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = o.GetGeneration()
	}
	return out
}

// noticed are the Clusters that Cluster API looks at because of what has changed: those that are not as they were, and all when a
// ClusterClass is not.
func noticed(was, is map[string]int64) []string {
	var all, own []string
	class := false
	for k, generation := range is {
		kind, name, _ := strings.Cut(k, " ")
		changed := was[k] != generation
		switch {
		case kind == "Cluster" && changed:
			own = append(own, name)
			fallthrough
		case kind == "Cluster":
			all = append(all, name)
		case changed:
			class = true
		}
	}
	if class {
		return all
	}
	return own
}

// parts are the objects of the platform application and those of a tenant.
func parts(objects []*unstructured.Unstructured, tenant string) (platform, tenants []*unstructured.Unstructured) {
	for _, o := range objects {
		if o.GetNamespace() == tenant {
			tenants = append(tenants, o)
		} else {
			platform = append(platform, o)
		}
	}
	return platform, tenants
}

// prediction is what a report says, as happened has it, and its words. What depends on whether a pool is held back is said with its
// condition or, where it is known what runs, decided by it.
func prediction(r report, running snapshot) (out []string, words string) {
	for _, c := range r.Clusters {
		name := c.Namespace + "/" + c.Name
		some := false
		for _, x := range c.Changes {
			place := name
			if strings.HasPrefix(x.Words, "deferUpgrade: the pool stays as it is") {
				continue // it is said of a pool on which nothing happens
			}
			if x.Pool != "" && x.Action != "frozen" && !strings.HasPrefix(x.Words, "deferUpgrade is set") { // of the Cluster as a whole
				place += " " + x.Pool
			}
			line := place + " " + x.Action
			words += fmt.Sprintf("%s: %s\n", line, x.Words)
			switch {
			case x.Condition == "":
			case running == nil:
				line += " " + strings.ReplaceAll(x.Condition, "-", " ")
			case running[name].heldBack(x.Pool) != (x.Condition == "if-held-back"):
				continue
			}
			some = true
			out = append(out, line)
		}
		if !some && slices.ContainsFunc(c.Changes, func(x change) bool { return x.Condition != "" }) {
			out = append(out, name+" in-place") // the Cluster says something else, and that is all
		}
	}
	slices.Sort(out)
	return slices.Compact(out), words
}

func short(lines []string, namespace string) string {
	if len(lines) == 0 {
		return "nothing"
	}
	return strings.ReplaceAll(strings.Join(lines, ", "), namespace+"/", "")
}

// annotated checks the rollout hashes: one changes where a MachineSet has come, and nowhere else. Where that is said not to be so, it must not be.
func annotated(t *testing.T, was, is map[string]string, rolled map[string]bool, exception bool) {
	t.Helper()
	var wrong []string
	for _, key := range slices.Sorted(maps.Keys(is)) {
		old, ok := was[key]
		if !ok {
			continue // a new pool
		}
		if (old != is[key]) != rolled[key] {
			wrong = append(wrong, fmt.Sprintf("%s: the rollout annotation goes from %s to %s, and that there is a new MachineSet is %v", key, old, is[key], rolled[key]))
		}
	}
	if exception != (wrong != nil) {
		t.Errorf("that the rollout annotation does not tell of a MachineSet is expected to be %v: %q", exception, wrong)
	}
}
