package gitsource

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/google/go-cmp/cmp"
)

// repository makes a repository with these files in one commit, which it returns.
func repository(t *testing.T, files map[string]string) (dir, commit string) {
	t.Helper()
	dir = t.TempDir()
	r, err := git.PlainInit(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	return dir, save(t, r, dir, files)
}

func save(t *testing.T, r *git.Repository, dir string, files map[string]string) string {
	t.Helper()
	w, err := r.Worktree()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Add(name); err != nil {
			t.Fatal(err)
		}
	}
	h, err := w.Commit("c", &git.CommitOptions{Author: &object.Signature{Name: "copyhold", Email: "copyhold@example.org", When: time.Unix(0, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}

// A tree is read from several goroutines at a time.
func TestTreeAtOnce(t *testing.T) {
	files := map[string]string{}
	for i := range 300 {
		files[fmt.Sprintf("a/%d/b/%d.yaml", i%100, i)] = fmt.Sprint(i)
	}
	dir, commit := repository(t, files)
	repo, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		tree, err := repo.At(commit)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for name, want := range files {
					if got, err := fs.ReadFile(tree, name); err != nil || string(got) != want {
						t.Errorf("%s: %q, %v", name, got, err)
					}
				}
			})
		}
		wg.Wait()
	}
}

// What has changed is told alike for two commits and for a commit and the files on disk, whatever Git's index knows.
func TestChanged(t *testing.T) {
	dir, first := repository(t, map[string]string{"a/x": "1", "a/y": "1", "b/z": "1", "c": "1", "d/e": "1"})
	repo, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	base, err := repo.At(first)
	if err != nil {
		t.Fatal(err)
	}
	onDisk := func(want ...string) {
		t.Helper()
		got, err := repo.ChangedFiles(base, dir)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("changed files (-want +got):\n%s", d)
		}
	}
	onDisk()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a/x", "2") // of the same size, and perhaps within the clock's step
	write("new/file", "1")
	if err := os.RemoveAll(filepath.Join(dir, "d")); err != nil {
		t.Fatal(err)
	}
	onDisk("a/x", "d/e", "new/file")
	write("c", "1") // touched, and the same
	onDisk("a/x", "d/e", "new/file")
	old, err := os.Stat(filepath.Join(dir, "b/z"))
	if err != nil {
		t.Fatal(err)
	}
	write("b/z", "2") // and as old as it was
	if err := os.Chtimes(filepath.Join(dir, "b/z"), old.ModTime(), old.ModTime()); err != nil {
		t.Fatal(err)
	}
	onDisk("a/x", "b/z", "d/e", "new/file")
	write("b/z", "1")

	second := save(t, repo.git, dir, map[string]string{"a/x": "2", "new/file": "1"})
	onDisk("a/x", "d/e", "new/file")
	head, err := repo.At(second)
	if err != nil {
		t.Fatal(err)
	}
	got, err := base.Changed(head)
	if want := []string{"a/x", "new/file"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("changed between commits: %v, %v, want %v", got, err, want)
	}
	back, err := head.Changed(base)
	if err != nil || !slices.Equal(got, back) {
		t.Errorf("the other way about: %v, %v", back, err)
	}
	if err := os.Symlink("c", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := repo.ChangedFiles(base, dir); err != ErrLinks {
		t.Errorf("with a link: %v, want %v", err, ErrLinks)
	}
}
