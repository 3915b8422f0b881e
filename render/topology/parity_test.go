package topology_test

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

var update = flag.Bool("update", false, "rewrite golden files")

const goldenHashes = "testdata/parity/hashes.golden"

// hashed is the rollout hash of a worker pool, with a digest of what it was made from: the class, its templates and the Cluster.
type hashed struct{ input, hash string }

// A rollout hash is kept in ledgers, and a changed one locks a cluster until somebody has looked. So hashes stay what they are from
// release to release, for whatever class they are made of. Where the rules must change, topology.Scheme does, and the changelog says so.
func TestHashesStay(t *testing.T) {
	got := map[string]hashed{}
	fleetHashes(t, got)
	files, err := filepath.Glob("testdata/parity/*.yaml")
	if err != nil || len(files) < 12 {
		t.Fatalf("%d classes in testdata/parity: %v", len(files), err)
	}
	for _, f := range files {
		classHashes(t, f, got)
	}
	data, err := os.ReadFile(goldenHashes)
	if err != nil && !*update {
		t.Fatal(err)
	}
	scheme, want := readHashes(t, string(data))
	changelog, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	wrong := judgeHashes(scheme, want, topology.Scheme, got, string(changelog))
	if *update {
		wrong = slices.DeleteFunc(wrong, func(w string) bool { return strings.HasSuffix(w, runUpdate) })
		if len(wrong) == 0 {
			writeHashes(t, got)
			return
		}
	}
	for _, w := range wrong {
		t.Error(w)
	}
}

const (
	runUpdate = "run go test ./render/topology -run HashesStay -update and look at the difference"
	newScheme = "hashes in ledgers would lock clusters on which nothing happens: give topology.Scheme a new name and CHANGELOG.md an entry with it"
)

// judgeHashes says what is wrong between the hashes that were committed and those that are made now.
func judgeHashes(was string, want map[string]hashed, is string, got map[string]hashed, changelog string) []string {
	if was != "" && was != is {
		if !regexp.MustCompile("(?m)^.*[Hh]ash.*`" + regexp.QuoteMeta(is) + "`").MatchString(changelog) {
			return []string{fmt.Sprintf("hashes are of scheme %s and were of %s: CHANGELOG.md needs a line about rollout hashes that names scheme `%s`, and what to do about it (copyhold ack)", is, was, is)}
		}
		return []string{fmt.Sprintf("hashes are of scheme %s, those in %s of %s: %s", is, goldenHashes, was, runUpdate)}
	}
	var wrong []string
	for _, name := range catalog.Sorted(got) {
		g := got[name]
		switch w, ok := want[name]; {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("%s has no committed hash: %s", name, runUpdate))
		case w.input != g.input:
			wrong = append(wrong, fmt.Sprintf("%s is made of something else than it was: %s", name, runUpdate))
		case w.hash != g.hash:
			wrong = append(wrong, fmt.Sprintf("%s has hash %s, want %s as committed; %s", name, g.hash, w.hash, newScheme))
		}
	}
	for _, name := range catalog.Sorted(want) {
		if _, ok := got[name]; !ok {
			wrong = append(wrong, fmt.Sprintf("%s is gone: %s", name, runUpdate))
		}
	}
	return wrong
}

func TestJudgeHashes(t *testing.T) {
	a := map[string]hashed{"x": {"1", "v1:a"}}
	for _, x := range []struct {
		name      string
		was, is   string
		want, got map[string]hashed
		changelog string
		words     string // of the one thing that is wrong; nothing is when empty
	}{
		{"the same", "v1", "v1", a, a, "", ""},
		{"another hash of the same", "v1", "v1", a, map[string]hashed{"x": {"1", "v1:b"}}, "", newScheme},
		{"another hash of another input", "v1", "v1", a, map[string]hashed{"x": {"2", "v1:b"}}, "", runUpdate},
		{"the same hash of another input", "v1", "v1", a, map[string]hashed{"x": {"2", "v1:a"}}, "", runUpdate},
		{"one more", "v1", "v1", nil, a, "", runUpdate},
		{"one less", "v1", "v1", a, nil, "", runUpdate},
		{"another scheme that nobody has heard of", "v1", "v2", a, map[string]hashed{"x": {"1", "v2:b"}}, "- Hashes.\n- Scheme `v2`.", "CHANGELOG.md needs a line"},
		{"another scheme", "v1", "v2", a, map[string]hashed{"x": {"1", "v2:b"}}, "- Rollout hashes are of scheme `v2` now.", runUpdate},
	} {
		wrong := judgeHashes(x.was, x.want, x.is, x.got, x.changelog)
		if x.words == "" && len(wrong) > 0 || x.words != "" && (len(wrong) != 1 || !strings.Contains(wrong[0], x.words)) {
			t.Errorf("%s: %q, want %q", x.name, wrong, x.words)
		}
	}
}

// fleetHashes are those of the example fleet.
func fleetHashes(t *testing.T, out map[string]hashed) {
	t.Helper()
	f, err := render.LoadFleet(os.DirFS("../../examples/fleet"), []string{"."})
	if err != nil || len(f.Clusters) == 0 {
		t.Fatal(err, f.Found)
	}
	for _, name := range catalog.Sorted(f.Clusters) {
		c := f.Clusters[name]
		if c.Hashes == nil { // whether a rollout is acknowledged is not asked here
			t.Fatal(name, c.Found)
		}
		for pool, hash := range c.Hashes {
			out["fleet "+name+" "+pool] = hashed{inputOf(t, c.Class, c.Manifest), hash}
		}
	}
}

// classHashes are those of the Clusters in a file with their class.
func classHashes(t *testing.T, file string, out map[string]hashed) {
	t.Helper()
	objects, key := readClass(t, file)
	class, problems, err := topology.NewClass(objects, key)
	if err != nil || len(problems) > 0 {
		t.Fatal(file, err, problems)
	}
	schemas := topology.NewSchemas(definition)
	class.Stored(schemas)
	clusters := 0
	for _, o := range objects {
		if o.GetKind() != "Cluster" {
			continue
		}
		clusters++
		admitted, problems, err := class.Admit(o)
		if err != nil || len(problems) > 0 {
			t.Fatal(file, err, problems)
		}
		pools, problems, err := class.Pools(admitted)
		if err != nil || len(problems) > 0 || len(pools) == 0 {
			t.Fatal(file, err, problems)
		}
		for name, p := range pools {
			h, err := p.Hash(schemas)
			if err != nil || h == "" {
				t.Fatal(file, name, err, p.Unknown)
			}
			for _, made := range []*manifest.Object{p.Infrastructure, p.Bootstrap} {
				if refused, err := schemas.Validate(made, nil); err != nil || len(refused) > 0 {
					t.Errorf("%s, Cluster %s, pool %s: no API server takes the %s: %v %v", file, o.GetName(), name, made.GetKind(), refused, err)
				}
			}
			out[strings.TrimSuffix(filepath.Base(file), ".yaml")+" "+o.GetName()+" "+name] = hashed{inputOf(t, class, admitted), h}
		}
	}
	if clusters == 0 {
		t.Errorf("%s has no Cluster", file)
	}
}

// readClass reads a ClusterClass with what belongs to it.
func readClass(t testing.TB, file string) ([]*manifest.Object, topology.Key) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := manifest.Parse(data)
	if err != nil {
		t.Fatal(file, err)
	}
	i := slices.IndexFunc(objects, topology.IsClass)
	if i < 0 {
		t.Fatal(file + " has no ClusterClass")
	}
	return objects, topology.Key{Namespace: objects[i].GetNamespace(), Name: objects[i].GetName()}
}

func inputOf(t *testing.T, class *topology.Class, o *manifest.Object) string {
	t.Helper()
	j, err := json.Marshal([]any{class.Digest(), o.GetNamespace(), o.GetName(), o.GetLabels(), o.Object["spec"]})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(j))[:12]
}

// readHashes reads a golden file: its scheme, then a line for each pool.
func readHashes(t *testing.T, text string) (scheme string, out map[string]hashed) {
	t.Helper()
	out = map[string]hashed{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case len(words) == 2 && words[0] == "scheme":
			scheme = words[1]
		case len(words) == 5:
			out[strings.Join(words[:3], " ")] = hashed{words[3], words[4]}
		default:
			t.Fatalf("%s: %q", goldenHashes, line)
		}
	}
	return scheme, out
}

func writeHashes(t *testing.T, got map[string]hashed) {
	t.Helper()
	var b strings.Builder
	b.WriteString("# Rollout hashes: class, Cluster, worker pool, digest of what it is made from, hash.\nscheme " + topology.Scheme + "\n")
	for _, name := range catalog.Sorted(got) {
		fmt.Fprintf(&b, "%s %s %s\n", name, got[name].input, got[name].hash)
	}
	if err := os.WriteFile(goldenHashes, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
