// Package gitsource reads commits as file trees. It never writes to a repository, runs no git command and follows no link out of the
// tree; it is the only importer of go-git.
package gitsource

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Repo is the Git repository that a folder stands in.
type Repo struct {
	git    *git.Repository
	prefix string // the folder's path in the repository, slash-separated; "" at its top
}

// ErrNoRepository says that a folder is not in a Git repository.
var ErrNoRepository = errors.New("not in a Git repository")

// Open finds the repository that a folder stands in.
func Open(dir string) (*Repo, error) {
	r, err := git.PlainOpenWithOptions(dir, &git.PlainOpenOptions{DetectDotGit: true, EnableDotGitCommonDir: true})
	if errors.Is(err, git.ErrRepositoryNotExists) {
		return nil, fmt.Errorf("%s: %w", dir, ErrNoRepository)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the Git repository of %s: %w", dir, err)
	}
	w, err := r.Worktree()
	if errors.Is(err, git.ErrIsBareRepository) {
		return nil, fmt.Errorf("%s is a bare Git repository: there are no files to work with; clone it first", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the Git repository of %s: %w", dir, err)
	}
	top, err := filepath.EvalSymlinks(w.Filesystem.Root())
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(top, real)
	if err != nil {
		return nil, err
	}
	prefix := filepath.ToSlash(rel)
	if prefix == "." {
		prefix = ""
	}
	return &Repo{git: r, prefix: prefix}, nil
}

// At is the tree of a revision: whatever git rev-parse takes for a commit, as a branch, a tag, a hash, HEAD~1.
func (r *Repo) At(rev string) (*Tree, error) {
	c, err := r.commit(rev)
	if err != nil {
		return nil, err
	}
	return r.tree(c)
}

// Upstream is the revision that work on the current branch is meant for: what the branch tracks, else main or master as the remote
// origin has it, else as they are here.
func (r *Repo) Upstream() (string, error) {
	var tried []string
	if head, err := r.git.Head(); err == nil && head.Name().IsBranch() {
		if b, err := r.git.Branch(head.Name().Short()); err == nil && b.Remote != "" {
			name := b.Merge.Short()
			if b.Remote != "." {
				name = b.Remote + "/" + name
			}
			tried = append(tried, name)
		}
	}
	tried = append(tried, "origin/main", "origin/master", "main", "master")
	for _, rev := range tried {
		if _, err := r.git.ResolveRevision(plumbing.Revision(rev)); err == nil {
			return rev, nil
		}
	}
	if _, err := r.commit("HEAD"); err != nil {
		return "", err
	}
	return "", errors.New("there is no upstream branch and no main to compare with: name a revision with --base")
}

// Base is the tree of the merge base of two revisions: the last commit that both have.
func (r *Repo) Base(rev, head string) (*Tree, error) {
	theirs, err := r.commit(rev)
	if err != nil {
		return nil, err
	}
	ours, err := r.commit(head)
	if err != nil {
		return nil, err
	}
	bases, err := theirs.MergeBase(ours)
	if err != nil {
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			return nil, fmt.Errorf("looking for the merge base of %q and %q: the clone is too shallow; fetch more history, as git fetch --unshallow does", rev, head)
		}
		return nil, fmt.Errorf("looking for the merge base of %q and %q: %w", rev, head, err)
	}
	if len(bases) == 0 {
		return nil, fmt.Errorf("%q and %q have no commit in common; if the clone is shallow, fetch more history, as git fetch --unshallow does", rev, head)
	}
	return r.tree(bases[0])
}

func (r *Repo) commit(rev string) (*object.Commit, error) {
	hash, err := r.git.ResolveRevision(plumbing.Revision(rev))
	if err != nil {
		if rev == "HEAD" {
			return nil, errors.New("the Git repository has no commit yet")
		}
		return nil, fmt.Errorf("there is no revision %q: fetch it, or name another", rev)
	}
	c, err := r.git.CommitObject(*hash)
	if err != nil {
		return nil, fmt.Errorf("reading commit %s: %w", hash, err)
	}
	return c, nil
}

func (r *Repo) tree(c *object.Commit) (*Tree, error) {
	t, err := c.Tree()
	if err == nil && r.prefix != "" {
		t, err = t.Tree(r.prefix)
		if errors.Is(err, object.ErrDirectoryNotFound) {
			return &Tree{Commit: c.Hash.String()}, nil // the folder was not there yet
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading commit %s: %w", c.Hash, err)
	}
	return &Tree{Commit: c.Hash.String(), tree: t}, nil
}
