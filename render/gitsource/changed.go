package gitsource

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/index"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// ErrLinks says that a tree holds symbolic links: which files a change touches cannot be told from their names then.
var ErrLinks = errors.New("the tree holds symbolic links")

// Changed are the files that differ between two commits' trees, sorted. Folders with one hash are not looked into.
func (t *Tree) Changed(other *Tree) ([]string, error) {
	var out []string
	err := changed("", t.tree, other.tree, &out)
	slices.Sort(out)
	return out, err
}

func changed(dir string, a, b *object.Tree, out *[]string) error {
	before, after := entries(a), entries(b)
	for name := range before {
		if _, ok := after[name]; !ok {
			after[name] = object.TreeEntry{}
		}
	}
	for name, now := range after {
		was := before[name]
		if was.Mode == filemode.Symlink || now.Mode == filemode.Symlink {
			return ErrLinks
		}
		if was.Hash == now.Hash && was.Mode == now.Mode {
			continue
		}
		full := path.Join(dir, name)
		if was.Mode != filemode.Dir && now.Mode != filemode.Dir {
			*out = append(*out, full)
			continue
		}
		sub := func(t *object.Tree, e object.TreeEntry) (*object.Tree, error) {
			if e.Mode != filemode.Dir {
				return nil, nil
			}
			return t.Tree(name)
		}
		x, err := sub(a, was)
		if err != nil {
			return err
		}
		y, err := sub(b, now)
		if err != nil {
			return err
		}
		if was.Mode != filemode.Dir && !was.Hash.IsZero() || now.Mode != filemode.Dir && !now.Hash.IsZero() { // a file became a folder
			*out = append(*out, full)
		}
		if err := changed(full, x, y, out); err != nil {
			return err
		}
	}
	return nil
}

func entries(t *object.Tree) map[string]object.TreeEntry {
	out := map[string]object.TreeEntry{}
	if t != nil {
		for _, e := range t.Entries {
			out[e.Name] = e
		}
	}
	return out
}

// ChangedFiles are the files of a folder on disk, the one that the repository was opened for, that are not as in a commit's tree:
// changed, new or gone, committed or not. A file that the index knows to be as it was is not read again.
func (r *Repo) ChangedFiles(base *Tree, dir string) ([]string, error) {
	was := map[string]plumbing.Hash{}
	if base.tree != nil {
		w := object.NewTreeWalker(base.tree, true, nil)
		defer w.Close()
		for {
			name, e, err := w.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			switch e.Mode {
			case filemode.Symlink:
				return nil, ErrLinks
			case filemode.Dir, filemode.Submodule:
			default:
				was[name] = e.Hash
			}
		}
	}
	known, written := r.index()
	var out []string
	err := filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		switch {
		case e.IsDir() && e.Name() == ".git":
			return fs.SkipDir
		case e.IsDir():
			return nil
		case e.Type()&fs.ModeSymlink != 0:
			return ErrLinks
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		hash, there := was[name]
		delete(was, name)
		if there && e.Type().IsRegular() {
			if k := known[name]; k != nil && clean(k, info, written) {
				if k.Hash != hash {
					out = append(out, name)
				}
				return nil
			}
			now, err := blob(file, info.Size())
			if err != nil && !errors.Is(err, fs.ErrPermission) {
				return err
			}
			if now == hash {
				return nil
			}
		}
		out = append(out, name)
		return nil
	})
	for name := range was {
		out = append(out, name)
	}
	slices.Sort(out)
	return out, err
}

// index is what Git knows of the files below the folder, and when it last wrote that down.
func (r *Repo) index() (map[string]*index.Entry, time.Time) {
	out := map[string]*index.Entry{}
	i, err := r.git.Storer.Index()
	if err != nil { // no index: every file is read
		return out, time.Time{}
	}
	var newest time.Time
	for _, e := range i.Entries {
		name := e.Name
		if r.prefix != "" {
			var ok bool
			if name, ok = strings.CutPrefix(name, r.prefix+"/"); !ok {
				continue
			}
		}
		out[name] = e
		if e.ModifiedAt.After(newest) {
			newest = e.ModifiedAt
		}
	}
	return out, newest
}

// clean reports whether a file is sure to be what the index says. One as young as the youngest that the index knows may have been
// changed again within the clock's step, so it is read. (Stage 0 is the plain one: go-git's constant Merged is 1, which it is not.)
func clean(e *index.Entry, info fs.FileInfo, newest time.Time) bool {
	return e.Stage == 0 && !e.SkipWorktree && int64(e.Size) == info.Size() && e.ModifiedAt.Equal(info.ModTime()) && info.ModTime().Before(newest) && unchangedSince(e, info)
}

// unchangedSince compares the time of the last change of a file's inode, which nobody can set, as those of its content can: a file that was
// copied over with its times kept is not what it was.
func unchangedSince(e *index.Entry, info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && e.CreatedAt.Unix() == changeTime(stat).Unix() && e.CreatedAt.Nanosecond() == changeTime(stat).Nanosecond()
}

// blob is the hash that Git gives a file's content.
func blob(file string, size int64) (plumbing.Hash, error) {
	f, err := os.Open(file)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	defer f.Close()
	h := plumbing.NewHasher(plumbing.BlobObject, size)
	if _, err := io.Copy(h, f); err != nil {
		return plumbing.ZeroHash, err
	}
	return h.Sum(), nil
}
