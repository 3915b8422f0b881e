package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The schemas in the built-in catalog are what the providers' modules hold.
func TestBuiltinSchemas(t *testing.T) {
	builtin := filepath.Join("..", "..", "catalog", "builtin")
	checkSchemas(t, filepath.Join(builtin, "files", "catalog", "crds"), sources)
	checkSchemas(t, filepath.Join(builtin, "tiers", "crds"), further)
}

func checkSchemas(t *testing.T, dir string, sources []source) {
	t.Helper()
	want := map[string]bool{}
	for _, s := range sources {
		want[s.file()] = true
		fresh, err := s.trimmed()
		if err != nil {
			t.Fatal(err)
		}
		kept, err := os.ReadFile(filepath.Join(dir, s.file()))
		if err != nil {
			t.Fatalf("%v\nmake crds writes it", err)
		}
		if !bytes.Equal(fresh, kept) {
			t.Errorf("%s is not what %s %s holds: make crds", s.file(), s.module, s.version)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !want[f.Name()] {
			t.Errorf("%s comes from nowhere: add its source, or remove it", f.Name())
		}
	}
}
