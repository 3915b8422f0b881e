package impact_test

import (
	"flag"
	"io/fs"
	"maps"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"copyhold.dev/copyhold/catalog/builtin"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/impact"
)

var update = flag.Bool("update", false, "rewrite golden files")

const (
	catalogFile = "catalog/catalog.yaml"
	classFile   = "catalog/classes/demo.yaml"
	solar       = "tenants/photon-prod/solar.yaml"
)

// repository is the tenants repository of testdata, with the built-in catalog's schemas.
func repository(t testing.TB) fstest.MapFS {
	t.Helper()
	a, err := txtar.ParseFile("testdata/fleet.txtar")
	if err != nil {
		t.Fatal(err)
	}
	out := fstest.MapFS{}
	for _, f := range a.Files {
		out[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	const crds = "catalog/crds"
	entries, err := fs.ReadDir(builtin.Repository(), crds)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := fs.ReadFile(builtin.Repository(), crds+"/"+e.Name())
		if err != nil {
			t.Fatal(err)
		}
		out[crds+"/"+e.Name()] = &fstest.MapFile{Data: data}
	}
	return out
}

// edit is a change of a file's text. An empty old puts a new file there, an empty file in place of new takes it away.
type edit struct{ file, old, new string }

func apply(t testing.TB, tree fstest.MapFS, edits []edit) fstest.MapFS {
	t.Helper()
	out := maps.Clone(tree)
	for _, e := range edits {
		switch text := ""; {
		case e.old == "" && e.new == "":
			delete(out, e.file)
		case e.old == "":
			out[e.file] = &fstest.MapFile{Data: []byte(e.new)}
		default:
			text = string(out[e.file].Data)
			if !strings.Contains(text, e.old) {
				t.Fatalf("%s does not hold %q", e.file, e.old)
			}
			out[e.file] = &fstest.MapFile{Data: []byte(strings.Replace(text, e.old, e.new, 1))}
		}
	}
	return out
}

func fleet(t testing.TB, tree fs.FS) *render.Fleet {
	t.Helper()
	f, err := render.LoadFleet(tree, []string{"."})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func compare(t testing.TB, was, is fs.FS) *impact.Report {
	t.Helper()
	r, err := impact.Compare(fleet(t, was), fleet(t, is))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// actions are the actions on the one cluster, each with its pool: "control-plane, rollout md-0".
func actions(r *impact.Report) string {
	var out []string
	for _, d := range r.Clusters {
		for _, c := range d.Changes {
			out = append(out, strings.Join(strings.Fields(string(c.Action)+" "+c.Pool+" "+c.Condition), " "))
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// TestAccepts holds what moves the lock, and what must not, where the template itself cannot be told.
func TestAccepts(t *testing.T) {
	base := repository(t)
	for _, x := range accepted {
		before := apply(t, base, x.given)
		was, is := fleet(t, before).Clusters["photon-prod/solar"], fleet(t, apply(t, before, x.edits)).Clusters["photon-prod/solar"]
		if was == nil || is == nil || was.Accepts["md-0"] == "" || is.Accepts["md-0"] == "" {
			t.Errorf("%s: nothing to accept: %+v, %+v", x.name, was, is)
			continue
		}
		if moves := was.Accepts["md-0"] != is.Accepts["md-0"]; moves != x.moves {
			t.Errorf("%s: from %s to %s", x.name, was.Accepts["md-0"], is.Accepts["md-0"])
		}
	}
}

// TestVerdicts is the measured truth on what rolls workers, a row each, with the words that are said about it kept beside.
func TestVerdicts(t *testing.T) {
	base := repository(t)
	if f := fleet(t, base); f.Found.Failed() {
		t.Fatal(f.Found)
	}
	var golden strings.Builder
	for _, v := range verdicts {
		before := apply(t, base, v.given)
		r := compare(t, before, apply(t, before, v.edits))
		if got := actions(r); got != v.want {
			t.Errorf("%s: %s, want %s", v.name, got, v.want)
		}
		golden.WriteString("== " + v.name + "\n")
		r.Notes = nil
		if err := r.Text(&golden, true, nil); err != nil {
			t.Fatal(err)
		}
	}
	const file = "testdata/verdicts.txt"
	if *update {
		if err := os.WriteFile(file, []byte(golden.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), golden.String()); d != "" {
		t.Errorf("%s (-want +got):\n%s", file, d)
	}
}
