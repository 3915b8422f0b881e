package topology_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/impact"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

var (
	pairs    = flag.Int("pairs", 200, "how many random edits of a cluster are held against Cluster API's reconciler")
	seed     = flag.Uint64("seed", 20261202, "of the random edits")
	oneWorld = flag.Int("world", -1, "look at this one world only")
)

const (
	perWorld = 20 // pairs that share a management cluster
	perStep  = 4  // clusters that share a commit
)

// What copyhold says of a change is what Cluster API does. Random tenants repositories are edited at random: requests, overlays, classes,
// templates. Each edit is judged by the report that copyhold diff prints, and carried out by Cluster API's own webhooks and topology
// reconciler on a management cluster in memory, which begins with the state before the edit, settled.
func TestPredictionsComeTrue(t *testing.T) {
	t.Logf("seed %d: go test ./render/topology -run PredictionsComeTrue -seed %[1]d -pairs %d", *seed, *pairs)
	files, err := filepath.Glob("testdata/parity/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) == "bare.yaml" }) // without schemas there is nothing to be held against
	total := &tally{counts: map[string]int{}}
	t.Run("worlds", func(t *testing.T) {
		for i := range (*pairs + perWorld - 1) / perWorld {
			if *oneWorld >= 0 && i != *oneWorld {
				continue
			}
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				p := &player{
					T: t, rand: rand.New(rand.NewPCG(*seed, uint64(i))), tally: total,
					repo: newRepository(t, files[i%len(files)]), world: newWorld(t),
				}
				p.play(min(perWorld, *pairs-i*perWorld))
			})
		}
	})
	t.Logf("%d pairs: %s", total.counts["pairs"], total)
	if *pairs >= 200 && *oneWorld < 0 {
		for _, what := range []string{"none", "rollout", "control-plane", "frozen", "rejected"} {
			if total.counts[what] < *pairs/50 {
				t.Errorf("only %d of %d pairs are %s: the test sees too little", total.counts[what], *pairs, what)
			}
		}
	}
}

// tally counts what the pairs came to.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
	hashes map[topology.PartKey]string // of pools made from scratch
}

func (c *tally) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
}

func (c *tally) String() string {
	var out []string
	for _, k := range catalog.Sorted(c.counts) {
		if k != "pairs" {
			out = append(out, fmt.Sprintf("%d %s", c.counts[k], k))
		}
	}
	return strings.Join(out, ", ")
}

// player plays one world.
type player struct {
	*testing.T
	rand    *rand.Rand
	tally   *tally
	repo    *repository
	world   *world
	count   int      // clusters made so far
	history []string // edits of the class so far, in words
}

// play takes step after step until that many pairs have been looked at.
func (p *player) play(pairs int) {
	ctx := context.Background()
	if refused, err := p.world.install(ctx, p.repo.class, p.repo.key); refused != nil || err != nil {
		p.Fatal(refused, err)
	}
	for pairs > 0 && !p.Failed() {
		want := min(perStep, pairs)
		if !p.populate(ctx, want) { // the class has become one that nothing runs on
			p.anew(ctx)
			continue
		}
		edited := p.repo.copy()
		done := p.edit(edited)
		p.history = append(p.history, done[""]...)
		pairs -= p.step(ctx, edited, done)
	}
}

// anew begins another world.
func (p *player) anew(ctx context.Context) {
	p.tally.add("worlds begun anew")
	p.repo, p.world, p.history = newRepository(p.T, p.repo.file), newWorld(p.T), nil
	if refused, err := p.world.install(ctx, p.repo.class, p.repo.key); refused != nil || err != nil {
		p.Fatal(refused, err)
	}
}

// populate fills the repository up with clusters that run and have settled.
func (p *player) populate(ctx context.Context, want int) bool {
	for tries := 0; len(p.repo.clusters) < want; tries++ {
		if tries == 30 {
			return false
		}
		p.count++
		name := fmt.Sprintf("c%d", p.count)
		with := p.repo.copy()
		with.clusters = map[string]*asked{name: p.newCluster(with)}
		c := p.load(with).Clusters[namespace+"/"+name]
		if c == nil || c.Manifest == nil || c.Hashes == nil {
			continue
		}
		states := []*manifest.Object{c.Manifest}
		if chance(p.rand, 6) { // it was upgraded before; pools that are deferred are held back since
			states = []*manifest.Object{topology.With(c.Manifest, older[topologyVersion(c.Manifest)], "version"), c.Manifest}
		}
		if p.begin(ctx, keyOf(name), states) {
			p.repo.clusters[name] = with.clusters[name]
		}
	}
	return true
}

var older = map[string]any{"v1.33.5": "v1.33.4", "v1.34.1": "v1.33.5", "v1.34.2": "v1.34.1", "v1.35.0": "v1.34.1", "v1.36.0": "v1.35.0"}

func keyOf(name string) client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: name} }

// begin brings a new cluster through some states, and reports whether it settles in each.
func (p *player) begin(ctx context.Context, key client.ObjectKey, states []*manifest.Object) bool {
	for _, o := range states {
		refused, err := p.world.sync(ctx, o)
		if err != nil {
			p.Fatal(err)
		}
		if refused != nil {
			p.Fatalf("Cluster API's webhook refuses a new cluster that is rendered: %v\n%s", refused, toJSON(o))
		}
		if _, failed := p.world.settle(ctx, key); failed != nil {
			if err := p.world.remove(ctx, key); err != nil {
				p.Fatal(err)
			}
			return false
		}
	}
	return true
}

func (p *player) load(r *repository) *render.Fleet {
	p.Helper()
	f, err := render.LoadFleet(r.tree(p.T), []string{"."})
	if err != nil {
		p.Fatal(err)
	}
	return f
}

// step predicts what the edit does, does it, and compares. It returns how many clusters were compared.
func (p *player) step(ctx context.Context, edited *repository, done map[string][]string) int {
	was, is := p.load(p.repo), p.load(edited)
	report, err := impact.Compare(was, is)
	if err != nil {
		p.Fatal(err)
	}
	diffs := map[string]*impact.Diff{}
	for _, d := range report.Clusters {
		diffs[d.Name] = d
	}
	rendered := !slices.ContainsFunc(slices.Collect(maps.Values(is.Clusters)), func(c *render.Cluster) bool { return c.Class == nil })
	refused := errors.New("the class is not rendered")
	if rendered {
		refused, err = p.world.install(ctx, edited.class, edited.key)
	}
	broken := err // a class that the webhook takes and the reconciler does not: every cluster of it stands still
	next := edited
	if refused != nil || broken != nil {
		next = p.repo
	}
	compared := 0
	for _, name := range catalog.Sorted(p.repo.clusters) {
		pair := pair{name: name, done: append(slices.Clone(done[""]), done[name]...), was: was.Clusters[namespace+"/"+name], is: is.Clusters[namespace+"/"+name], diff: diffs[name]}
		p.memo(p.repo, pair.was, was)
		p.memo(edited, pair.is, is)
		if broken == nil && rendered {
			p.carryOut(ctx, &pair)
		} else {
			pair.failed = broken
		}
		pair.refused = errors.Join(pair.refused, refused)
		if complaint := pair.judge(); complaint != "" {
			p.Errorf("%s\n%s", complaint, p.tell(pair))
		}
		compared++
		p.tally.add("pairs")
		p.tally.add(pair.outcome())
		if pair.spent() && refused == nil {
			delete(next.clusters, name)
			if err := p.world.remove(ctx, keyOf(name)); err != nil {
				p.Fatal(err)
			}
		}
	}
	p.repo = next
	if refused != nil && rendered && broken == nil && !p.Failed() { // no tree has the class as it is then
		p.anew(ctx)
	}
	return compared
}

// carryOut lets Cluster API do what the edit asks of one cluster.
func (p *player) carryOut(ctx context.Context, pair *pair) {
	key := keyOf(pair.name)
	pair.before = p.world.state(ctx, key)
	if pair.is == nil {
		p.Fatalf("%s is gone", pair.name)
	}
	if pair.is.Manifest == nil || pair.is.Hashes == nil {
		pair.refused = fmt.Errorf("not rendered: %v", pair.is.Found)
	} else {
		var err error
		if pair.refused, err = p.world.sync(ctx, pair.is.Manifest); err != nil {
			p.Fatal(err)
		}
	}
	pair.after, pair.failed = p.world.settle(ctx, key)
}

// memo holds a cluster's memoised hashes against those made from scratch, and against those of all pools with the same key; and then those
// of clusters that differ from it a little, which share what is remembered.
func (p *player) memo(r *repository, c *render.Cluster, f *render.Fleet) {
	if c == nil || c.Manifest == nil || c.Hashes == nil {
		return
	}
	p.remembered(c.Class, c.Manifest, c.Hashes, f.Schemas)
	other := c.Manifest.DeepCopy()
	switch all := entries(r.spec()["variables"]); {
	case chance(p.rand, 4):
		other.SetName(other.GetName() + "x")
	case chance(p.rand, 4):
		other.SetLabels(map[string]string{"team": "x"})
	case len(all) > 0:
		v := pick(p.rand, all...)
		other = topology.WithVariable(other, "", v["name"].(string), value(p.rand, at(v, "schema", "openAPIV3Schema").(map[string]any), false, 0))
	}
	admitted, problems, err := c.Class.Admit(other)
	if err != nil {
		p.Fatal(err)
	}
	if len(problems) > 0 {
		return
	}
	pools, problems, err := c.Class.Pools(admitted)
	if err != nil {
		p.Fatal(err)
	}
	if len(problems) > 0 {
		return
	}
	hashes := map[string]string{}
	for name, pool := range pools {
		if hashes[name], err = pool.Hash(f.Schemas); err != nil {
			p.Fatal(err)
		}
	}
	p.remembered(c.Class, admitted, hashes, f.Schemas)
}

func (p *player) remembered(class *topology.Class, o *manifest.Object, hashes map[string]string, s *topology.Schemas) {
	d, problems, err := class.Desired(o)
	if err != nil || len(problems) > 0 {
		p.Errorf("%s has hashes and no desired state: %v %v", o.GetName(), problems, err)
		return
	}
	keys, err := class.PoolKeys(o)
	if err != nil {
		p.Fatal(err)
	}
	for name, memoised := range hashes {
		fresh, err := d.Pools[name].Hash(s)
		if err != nil {
			p.Fatal(err)
		}
		p.tally.mu.Lock()
		if p.tally.hashes == nil {
			p.tally.hashes = map[topology.PartKey]string{}
		}
		known, ok := p.tally.hashes[keys[name]]
		p.tally.hashes[keys[name]] = fresh
		p.tally.mu.Unlock()
		if fresh != memoised || ok && known != fresh {
			p.Errorf("pool %s of %s has hash %s from scratch, %s by memo, and a pool with the same key had %q\nclass %s, edits so far:\n  %s\n%s", name, o.GetName(), fresh, memoised, known, p.repo.file, strings.Join(p.history, "\n  "), toJSON(o))
		}
	}
}
