package tests

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"copyhold.dev/copyhold/catalog/builtin"
	"copyhold.dev/copyhold/render"
)

// applications are the parts of an example that Argo CD would sync each by itself, with the file its manifests are committed in.
func applications(t *testing.T, example string) map[string]string {
	t.Helper()
	tenants, err := os.ReadDir(filepath.Join(example, "tenants"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{"catalog": "rendered/platform.yaml"}
	for _, e := range tenants {
		if e.IsDir() {
			out["tenants/"+e.Name()] = "rendered/" + e.Name() + ".yaml"
		}
	}
	return out
}

var examples = []string{"../examples/quickstart", "../examples/fleet", "../examples/tiers"}

// Every example renders to what is committed beside it, without a warning that is not about the placeholder.
func TestExamples(t *testing.T) {
	for _, example := range examples {
		for path, file := range applications(t, example) {
			got := rendered(t, os.DirFS(example), path)
			golden := filepath.Join(example, file)
			if len(got) == 0 { // the quickstart's platform application has no manifests: kMetal owns its pool
				if _, err := os.Stat(golden); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s renders to nothing, but %s is there", path, golden)
				}
				continue
			}
			if *update {
				if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Errorf("%s of %s (-committed +rendered):\n%s", path, example, d)
			}
		}
	}
}

func rendered(t *testing.T, tree fs.FS, paths ...string) []byte {
	t.Helper()
	_, set, found, err := render.Render(tree, paths...)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Name != "catalog/placeholder" {
			t.Errorf("render %s: %s", paths, f)
		}
	}
	var b bytes.Buffer
	if err := set.WriteYAML(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The classes of an example are the built-in ones, byte for byte.
func TestExamplesHaveBuiltinClasses(t *testing.T) {
	files := builtin.Repository()
	for _, example := range examples[:2] {
		err := fs.WalkDir(files, "catalog/classes", func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			want, err := fs.ReadFile(files, name)
			if err != nil {
				return err
			}
			file := filepath.Join(example, name)
			if *update {
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					return err
				}
				if err := os.WriteFile(file, want, 0o644); err != nil {
					return err
				}
			}
			got, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if !bytes.Equal(want, got) {
				t.Errorf("%s is not the built-in %s", file, name)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// The charts and schemas of the example with all tiers are the built-in ones, byte for byte.
func TestExampleHasBuiltinTiers(t *testing.T) {
	for _, name := range builtin.Tiers() {
		files, _, err := builtin.Tier(name)
		if err != nil {
			t.Fatal(err)
		}
		for file, want := range files {
			file = filepath.Join("../examples/tiers", file)
			if *update {
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, want, 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, got) {
				t.Errorf("%s is not the built-in file", file)
			}
		}
	}
}

// The same tree gives the same bytes: twice in one process, whatever the order folders list their files in, from another working
// folder, in a new process, with one processor or two.
func TestSameBytes(t *testing.T) {
	const example = "../examples/fleet"
	want := rendered(t, os.DirFS(example))
	if len(want) < 10_000 {
		t.Fatalf("the fleet renders to %d bytes only", len(want))
	}
	const seed = 7
	r := rand.New(rand.NewPCG(seed, seed))
	for range 3 {
		if got := rendered(t, shuffled{os.DirFS(example), r}); !bytes.Equal(got, want) {
			t.Errorf("shuffled folders (seed %d) give other bytes:\n%s", seed, cmp.Diff(string(want), string(got)))
		}
	}
	for _, procs := range []int{1, 2} {
		before := runtime.GOMAXPROCS(procs)
		if got := rendered(t, os.DirFS(example)); !bytes.Equal(got, want) {
			t.Errorf("GOMAXPROCS %d gives other bytes", procs)
		}
		runtime.GOMAXPROCS(before)
	}
	copied := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.CopyFS(copied, os.DirFS(example)); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("copyhold", "render", "--root", copied) // testscript's copy of this binary, see TestMain
	c.Dir = t.TempDir()
	var stderr strings.Builder
	c.Stderr = &stderr
	got, err := c.Output()
	if err != nil {
		t.Fatalf("copyhold render --root: %v\n%s", err, stderr.String())
	}
	if !bytes.Equal(got, want) {
		t.Errorf("a new process in another folder gives other bytes")
	}
}

// shuffled lists its folders in another order each time.
type shuffled struct {
	fs.FS
	r *rand.Rand
}

func (s shuffled) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(s.FS, name)
	s.r.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	return entries, err
}
