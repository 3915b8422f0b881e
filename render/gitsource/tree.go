package gitsource

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"copyhold.dev/copyhold/render/diag"
)

// Tree is a commit's files as an fs.FS. Links are followed within the tree. The zero tree is empty.
type Tree struct {
	Commit string // its hash

	mu   sync.Mutex // of tree: go-git remembers what it has read
	tree *object.Tree
}

// ErrNotHere says that a commit's files are not in the clone. They must not be taken for files that are not there.
var ErrNotHere = errors.New("the file's content is not in this clone: it is a partial one; fetch it, as git fetch --refetch --no-filter does")

// maxLinks bounds how many links are followed for one name.
const maxLinks = 10

// Open implements fs.FS.
func (t *Tree) Open(name string) (fs.File, error) {
	fail := func(err error) (fs.File, error) { return nil, &fs.PathError{Op: "open", Path: name, Err: err} }
	if !fs.ValidPath(name) {
		return fail(fs.ErrInvalid)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at := name
	for range maxLinks {
		if at == "." {
			return t.dir(name, t.tree)
		}
		if t.tree == nil {
			return fail(fs.ErrNotExist)
		}
		entry, rest, err := t.walk(at)
		if err != nil {
			return fail(err)
		}
		if entry.Mode == filemode.Symlink {
			to, err := t.link(strings.TrimSuffix(strings.TrimSuffix(at, rest), "/"))
			if err != nil {
				return fail(err)
			}
			at = path.Join(to, rest)
			continue
		}
		if entry.Mode == filemode.Dir {
			sub, err := t.tree.Tree(at)
			if err != nil {
				return fail(err)
			}
			return t.dir(name, sub)
		}
		if entry.Mode == filemode.Submodule {
			return fail(fs.ErrNotExist)
		}
		f, err := t.tree.File(at)
		if errors.Is(err, object.ErrFileNotFound) || errors.Is(err, plumbing.ErrObjectNotFound) {
			return fail(ErrNotHere)
		}
		if err != nil {
			return fail(err)
		}
		text, err := f.Contents()
		if err != nil {
			return fail(err)
		}
		return &file{info{path.Base(name), f.Size, 0o444}, io.NopCloser(strings.NewReader(text))}, nil
	}
	return fail(fs.ErrNotExist) // links in a circle
}

// walk finds the entry of a name, or of the first link on the way to it; rest is what comes after the link.
func (t *Tree) walk(name string) (entry *object.TreeEntry, rest string, err error) {
	parts := strings.Split(name, "/")
	for i := range parts {
		e, err := t.tree.FindEntry(strings.Join(parts[:i+1], "/"))
		if errors.Is(err, object.ErrEntryNotFound) || errors.Is(err, object.ErrDirectoryNotFound) {
			return nil, "", fs.ErrNotExist
		}
		if err != nil {
			return nil, "", err
		}
		if e.Mode == filemode.Symlink || i == len(parts)-1 {
			return e, strings.Join(parts[i+1:], "/"), nil
		}
	}
	return nil, "", fs.ErrNotExist
}

// link is where the link at a name leads, as a name in the tree.
func (t *Tree) link(name string) (string, error) {
	f, err := t.tree.File(name)
	if err != nil {
		return "", err
	}
	target, err := f.Contents()
	if err != nil {
		return "", err
	}
	to := path.Join(path.Dir(name), target)
	if path.IsAbs(target) || to == ".." || strings.HasPrefix(to, "../") {
		return "", diag.ErrOutside
	}
	return to, nil
}

func (t *Tree) dir(name string, tree *object.Tree) (fs.File, error) {
	d := &dir{info: info{path.Base(name), 0, fs.ModeDir | 0o555}}
	if tree == nil {
		return d, nil
	}
	for _, e := range tree.Entries {
		mode := fs.FileMode(0o444)
		switch e.Mode {
		case filemode.Dir:
			mode = fs.ModeDir | 0o555
		case filemode.Symlink:
			mode = fs.ModeSymlink | 0o777
		case filemode.Submodule:
			continue
		}
		d.entries = append(d.entries, entry{info{e.Name, 0, mode}})
	}
	slices.SortFunc(d.entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return d, nil
}

type info struct {
	name string
	size int64
	mode fs.FileMode
}

func (i info) Name() string               { return i.name }
func (i info) Size() int64                { return i.size }
func (i info) Mode() fs.FileMode          { return i.mode }
func (i info) ModTime() time.Time         { return time.Time{} }
func (i info) IsDir() bool                { return i.mode.IsDir() }
func (i info) Sys() any                   { return nil }
func (i info) Stat() (fs.FileInfo, error) { return i, nil }

type file struct {
	info
	io.ReadCloser
}

type entry struct{ info }

func (e entry) Type() fs.FileMode          { return e.mode.Type() }
func (e entry) Info() (fs.FileInfo, error) { return e.info, nil }

type dir struct {
	info
	entries []fs.DirEntry
}

func (d *dir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: errors.New("is a directory")}
}
func (d *dir) Close() error { return nil }

// ReadDir implements fs.ReadDirFile.
func (d *dir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		out := d.entries
		d.entries = nil
		return out, nil
	}
	if len(d.entries) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.entries))
	out := d.entries[:n]
	d.entries = d.entries[n:]
	return out, nil
}
