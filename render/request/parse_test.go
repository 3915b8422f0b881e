package request

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the .out files")

// Every testdata/bad/NAME.yaml has its findings in NAME.out; every testdata/ok/NAME.yaml has none. A case needs no Go.
func TestParse(t *testing.T) {
	bad, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(bad) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range bad {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, found := Parse("tenants/photon-prod/"+filepath.Base(file), data)
			if !found.Failed() {
				t.Errorf("Parse(%s) found no error", file)
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".out"
			if *update {
				if err := os.WriteFile(golden, []byte(found.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), found.String()); d != "" {
				t.Errorf("Parse(%s) findings (-want +got):\n%s", file, d)
			}
		})
	}
}

func TestParseAccepts(t *testing.T) {
	ok, err := filepath.Glob("testdata/ok/*.yaml")
	if err != nil || len(ok) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range ok {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, found := Parse("tenants/photon-prod/"+filepath.Base(file), data)
		if len(found) > 0 {
			t.Errorf("Parse(%s) found:\n%s", file, found)
		}
		if len(r.Clusters)+len(r.Subnets) == 0 {
			t.Errorf("Parse(%s) gave no request", file)
		}
	}
}

// FuzzParse wants no panic, and every finding inside the file.
func FuzzParse(f *testing.F) {
	for _, glob := range []string{"testdata/bad/*.yaml", "testdata/ok/*.yaml"} {
		files, err := filepath.Glob(glob)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, found := Parse("tenants/photon-prod/x.yaml", data)
		lines := strings.Count(string(data), "\n") + 1
		for _, x := range found {
			if x.Pos.File != "tenants/photon-prod/x.yaml" || x.Pos.Line > lines || x.Pos.Line < 0 || x.Message == "" || !strings.Contains(x.Name, "/") {
				t.Errorf("finding %+v of a file with %d lines", x, lines)
			}
		}
		if len(r.Clusters)+len(r.Subnets) == 0 && !found.Failed() {
			t.Errorf("neither a request nor an error in %q", data)
		}
	})
}
