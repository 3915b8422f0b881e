package controlplane

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// repository is a tenants repository in a folder.
type repository struct {
	t    testing.TB
	root string
}

func copyOf(t testing.TB, dir string) repository {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return repository{t, root}
}

func (r repository) path(name string) string { return filepath.Join(r.root, filepath.FromSlash(name)) }

func (r repository) read(name string) string {
	r.t.Helper()
	data, err := os.ReadFile(r.path(name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data)
}

func (r repository) write(name, text string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(r.path(name)), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.path(name), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// edit replaces a text that is in a file, everywhere in it.
func (r repository) edit(name, from, to string) {
	r.t.Helper()
	was := r.read(name)
	if !strings.Contains(was, from) {
		r.t.Fatalf("%s has no %q", name, from)
	}
	r.write(name, strings.ReplaceAll(was, from, to))
}

func (r repository) remove(name string) {
	r.t.Helper()
	if err := os.Remove(r.path(name)); err != nil {
		r.t.Fatal(err)
	}
}

// run runs copyhold in the repository. What it prints is the answer, also when it fails.
func (r repository) run(args ...string) (stdout, stderr []byte, err error) {
	c := exec.Command(copyhold, args...)
	c.Dir = r.root
	var out, complaint bytes.Buffer
	c.Stdout, c.Stderr = &out, &complaint
	err = c.Run()
	return out.Bytes(), complaint.Bytes(), err
}

func (r repository) must(args ...string) []byte {
	r.t.Helper()
	out, complaint, err := r.run(args...)
	if err != nil {
		r.t.Fatalf("copyhold %s: %v\n%s", strings.Join(args, " "), err, complaint)
	}
	return out
}

// render is what copyhold render prints.
func (r repository) render(paths ...string) []*unstructured.Unstructured {
	r.t.Helper()
	out, err := parseObjects(string(r.must(append([]string{"render"}, paths...)...)))
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// report is what the tests read of copyhold diff -o json.
type report struct {
	Clusters []struct {
		Namespace, Name string
		Changes         []change
	}
	Objects []struct{ Action, Kind, Name string }
	Same    int
}

type change struct{ Action, Pool, Words, Condition string }

// diff is what copyhold says of the step from another state of the repository to this one. It says so, too, where it finds errors.
func (r repository) diff(base repository) report {
	r.t.Helper()
	out, complaint, _ := r.run("diff", "--base-dir", base.root, "-o", "json")
	var got report
	if err := json.Unmarshal(out, &got); err != nil {
		r.t.Fatalf("copyhold diff: %v\n%s", err, complaint)
	}
	return got
}

// tenants are the tenants that have requests.
func (r repository) tenants() []string {
	r.t.Helper()
	entries, err := os.ReadDir(r.path("tenants"))
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out
}

// namespaces are the namespaces of all that the repository renders.
func (r repository) namespaces() []string {
	r.t.Helper()
	out := r.tenants()
	for _, o := range r.render() {
		if ns := o.GetNamespace(); ns != "" && !slices.Contains(out, ns) {
			out = append(out, ns)
		}
	}
	return out
}
