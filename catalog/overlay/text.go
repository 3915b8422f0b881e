package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/types"

	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/strict"
)

// text is what a patch says, from a file of its own or from a field of the kustomization.
type text struct {
	docs  []strict.Document // at least one
	list  bool              // it is a list: docs holds one mapping, with the list under the key it was read with
	field diag.Pos          // for a field, its place; its own lines are not the file's
}

// text reads what a patch says. It is nil, with a finding, when there is nothing to read.
func (l *loader) text(p types.Patch, key string, at ...string) (*text, error) {
	t, file, data := &text{}, l.out.file, []byte(p.Patch)
	switch {
	case p.Path != "" && p.Patch != "":
		l.bad(l.doc.At(at...), "a path and a patch, want one of the two")
		return nil, nil
	case p.Path == "" && strings.TrimSpace(p.Patch) == "":
		l.bad(l.doc.At(at...), "no path and no patch, want one of the two")
		return nil, nil
	case p.Patch != "":
		t.field = l.doc.At(append(at, "patch")...)
	default:
		var err error
		if file, data, err = l.file(p.Path, l.doc.At(append(at, "path")...)); file == "" {
			return nil, err
		}
	}
	data, t.list = asMapping(data, key)
	docs, bad := strict.Parse(file, data)
	l.found.Add(t.placed(bad)...)
	if bad.Failed() {
		return nil, nil
	}
	if t.docs = docs; len(docs) == 0 || t.list && len(docs) > 1 {
		l.bad(t.pos(diag.Pos{File: file}), "%d documents, want one", len(docs))
		return nil, nil
	}
	return t, nil
}

// file reads one of the overlay's own files; its name is "" when it is none. pos is where the overlay names it.
func (l *loader) file(name string, pos diag.Pos) (string, []byte, error) {
	if why := l.outside(name); why != "" {
		l.found.Add(diag.Errorf(pos, "overlay/outside", "%q is not a file of the overlay: %s", name, why).
			Hintf("copy the file into %s", l.dir))
		return "", nil, nil
	}
	file := path.Join(l.dir, name)
	info, err := fs.Stat(l.tree, file)
	switch fault := (*fs.PathError)(nil); {
	case errors.As(err, &fault) && !errors.Is(err, fs.ErrNotExist): // the name of a file below a file, among others
		l.found.Add(diag.Errorf(pos, "overlay/no-file", "no file %q in the overlay: %v", name, fault.Err))
		return "", nil, nil
	case err != nil || !info.Mode().IsRegular():
		l.found.Add(diag.Errorf(pos, "overlay/no-file", "no file %q in the overlay", name))
		return "", nil, nil
	}
	data, err := fs.ReadFile(l.tree, file)
	if err != nil {
		return "", nil, err
	}
	return file, data, nil
}

// outside says why a path that an overlay names is not one of its own files, or "".
func (l *loader) outside(name string) string {
	switch {
	case strings.HasPrefix(name, "/"):
		return "it is an absolute path"
	case slices.Contains(strings.Split(name, "/"), ".."):
		return "it leaves the folder"
	case strings.ContainsAny(name, ":?"), strings.Contains(name, "//"):
		return "it is an address, and nothing is fetched"
	}
	// A symbolic link may lead anywhere.
	rel := path.Clean(name)
	for end := range rel {
		if rel[end] == '/' && l.linked(rel[:end]) {
			return "it goes through a symbolic link"
		}
	}
	if l.linked(rel) {
		return "it is a symbolic link"
	}
	// host.example/team/repository is a folder like any other, unless it is not there.
	if host, _, ok := strings.Cut(rel, "/"); ok && strings.Contains(host, ".") {
		if _, err := fs.Stat(l.tree, path.Join(l.dir, host)); errors.Is(err, fs.ErrNotExist) {
			return "it looks like a repository elsewhere, and nothing is fetched"
		}
	}
	return ""
}

func (l *loader) linked(rel string) bool {
	info, err := fs.Lstat(l.tree, path.Join(l.dir, rel))
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// asMapping turns a text that is a list into a mapping with the list as its only value, on the next line: package strict reads mappings.
func asMapping(data []byte, key string) ([]byte, bool) {
	lines := bytes.Split(data, []byte("\n"))
	for i, line := range lines {
		switch s := string(bytes.TrimSpace(line)); {
		case s == "" || strings.HasPrefix(s, "#"):
		case s == "---" || strings.HasPrefix(s, "--- #"):
			lines[i] = nil // the start of the document is before the key now
		case s == "-" || strings.HasPrefix(s, "- "):
			return fmt.Appendf(nil, "%s:\n%s", key, bytes.Join(lines, []byte("\n"))), true
		case strings.HasPrefix(s, "["):
			return fmt.Appendf(nil, "{%s:\n%s\n}", key, bytes.Join(lines, []byte("\n"))), true
		default:
			return data, false
		}
	}
	return data, false
}

// pos is the place of what package strict found at p.
func (t *text) pos(p diag.Pos) diag.Pos {
	switch {
	case t.field != diag.Pos{}:
		return t.field
	case t.list && p.Line > 0:
		p.Line = max(p.Line-1, 1)
	}
	return p
}

// placed are findings at their place. In a field they name the line of the text.
func (t *text) placed(found diag.List) diag.List {
	out := slices.Clone(found)
	for i, f := range out {
		out[i].Pos = t.pos(f.Pos)
		if line := f.Pos.Line; t.field != (diag.Pos{}) && line > 0 {
			if t.list {
				line = max(line-1, 1)
			}
			out[i].Message = fmt.Sprintf("line %d of the patch: %s", line, f.Message)
		}
	}
	return out
}
