package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
)

// tree is a tenants repository on disk. Nothing in it is followed out of its root: os.Root sees to that for every open.
//
// os.Root refuses any absolute link, one that leads back into the root as well; but Argo CD 2.14 makes all links of a repository
// absolute when it hands it to a plugin. So a refused name is resolved first and, if it still lies under the root, opened by its
// resolved name, again through os.Root: a link that is swapped in between leads nowhere.
type tree struct {
	root *os.Root
	dir  string // absolute, without links

	mu      sync.Mutex
	folders map[string]*os.Root // handles of folders that were read from: a name is then looked up in one step, not in one per part
}

func openTree(dir string) (*tree, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the repository: %w", err)
	}
	r, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("opening the repository: %w", err)
	}
	return &tree{root: r, dir: abs, folders: map[string]*os.Root{}}, nil
}

func (t *tree) close() {
	for _, f := range t.folders {
		_ = f.Close()
	}
	_ = t.root.Close()
}

// maxFolders bounds how many handles are kept open.
const maxFolders = 256

// folder is a handle of the folder that a name lies in, and the name in it.
func (t *tree) folder(name string) (*os.Root, string) {
	dir, base := path.Split(name)
	if dir == "" {
		return t.root, base
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.folders[dir]
	if f == nil && len(t.folders) < maxFolders {
		if r, err := t.root.OpenRoot(path.Clean(dir)); err == nil {
			f = r
			t.folders[dir] = r
		}
	}
	if f == nil {
		return t.root, name
	}
	return f, base
}

// Open implements fs.FS. It does not wait: a pipe that nobody writes to reads as empty.
func (t *tree) Open(name string) (fs.File, error) {
	return through(t, "open", name, func(r *os.Root, n string) (fs.File, error) {
		return r.OpenFile(n, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	})
}

// Stat implements fs.StatFS: a pipe or device is looked at, never opened.
func (t *tree) Stat(name string) (fs.FileInfo, error) {
	return through(t, "stat", name, (*os.Root).Stat)
}

// Lstat and ReadLink implement fs.ReadLinkFS.
func (t *tree) Lstat(name string) (fs.FileInfo, error) { return t.root.Lstat(name) }

// ReadLink gives where a link leads, as written.
func (t *tree) ReadLink(name string) (string, error) { return t.root.Readlink(name) }

func through[T any](t *tree, op, name string, do func(*os.Root, string) (T, error)) (T, error) {
	var none T
	if !fs.ValidPath(name) {
		return none, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	v, err := do(t.folder(name))
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return v, err
	}
	if errors.Is(err, syscall.ELOOP) { // a link in a circle leads nowhere
		return none, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	real, resolveErr := filepath.EvalSymlinks(filepath.Join(t.dir, filepath.FromSlash(name)))
	if resolveErr != nil {
		if errors.Is(resolveErr, fs.ErrPermission) {
			return none, &fs.PathError{Op: op, Path: name, Err: fs.ErrPermission}
		}
		return none, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} // as a link in a circle, made absolute
	}
	rel, relErr := filepath.Rel(t.dir, real)
	if relErr != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return none, &fs.PathError{Op: op, Path: name, Err: diag.ErrOutside}
	}
	return do(t.root, rel)
}

// repository finds the root and opens it, and turns the paths of the command line into paths below it. No path means the working
// folder when that lies in the repository, else the root.
func (a *app) repository(args []string) (*tree, []string, error) {
	wd, err := getwd()
	if err != nil {
		return nil, nil, err
	}
	dir := a.root
	if dir == "" {
		if dir, err = findRoot(wd); err != nil {
			return nil, nil, err
		}
	} else if _, err := os.Stat(filepath.Join(dir, render.RootFile)); err != nil {
		return nil, nil, usageError{fmt.Errorf("--root %s has no %s: it is not the root of a tenants repository", dir, render.RootFile), "copyhold init makes one"}
	}
	t, err := openTree(dir)
	if err != nil {
		return nil, nil, err
	}
	if len(args) == 0 {
		args = []string{t.dir}
		if here, err := t.relative(wd); err == nil && a.root == "" {
			args = []string{filepath.Join(t.dir, filepath.FromSlash(here))}
		}
	}
	var paths []string
	for _, arg := range args {
		p, err := t.relative(filepath.Join(absBase(wd, arg), arg))
		if err != nil {
			t.close()
			return nil, nil, err
		}
		paths = append(paths, p)
	}
	return t, paths, nil
}

func absBase(wd, arg string) string {
	if filepath.IsAbs(arg) {
		return ""
	}
	return wd
}

// relative is a path below the root, slash-separated. The file itself need not be there.
func (t *tree) relative(p string) (string, error) {
	dir, base := filepath.Split(filepath.Clean(p))
	if real, err := filepath.EvalSymlinks(dir); err == nil { // the root is without links, so the path must be
		p = filepath.Join(real, base)
	}
	rel, err := filepath.Rel(t.dir, p)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", usageError{fmt.Errorf("%s is not in the tenants repository %s", p, t.dir), "name a folder or file of the repository, or set --root"}
	}
	return filepath.ToSlash(rel), nil
}

// outermost refuses a root that lies in another. The file that makes a root can be written by whoever may write there: a tenant with a
// copyhold.yaml in its folder would bring a catalog and namespaces of its own.
func outermost(root string) error {
	for dir := filepath.Dir(root); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, render.RootFile)); err == nil {
			return usageError{fmt.Errorf("%s is in %s and in %s above it: which is the root?", render.RootFile, root, dir), "remove the one that is not, or set --root"}
		}
	}
	return nil
}

// findRoot walks up to the folder that holds copyhold.yaml.
func findRoot(from string) (string, error) {
	for dir := from; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, render.RootFile)); err == nil {
			return dir, outermost(dir)
		}
		if dir == filepath.Dir(dir) {
			return "", usageError{fmt.Errorf("no %s in %s or any folder above it", render.RootFile, from), "run copyhold init to make a tenants repository, or set --root"}
		}
	}
}
