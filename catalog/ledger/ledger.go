package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"

	"copyhold.dev/copyhold/render/diag"
)

// Ledger is everything under the ledger folder: who has which address, and what each cluster was admitted with.
type Ledger struct {
	Records map[string]*Record              // by namespace/name
	Locks   map[string]map[netip.Addr]*Lock // by pool
	dir     string
}

// Load reads a ledger folder. A folder that is not there is an empty ledger. Files that do not parse are left out and found.
func Load(tree fs.FS, dir string) (*Ledger, diag.List, error) {
	l := &Ledger{Records: map[string]*Record{}, Locks: map[string]map[netip.Addr]*Lock{}, dir: dir}
	var found diag.List
	bad, err := eachFile(tree, path.Join(dir, "clusters"), func(file string, data []byte) diag.List {
		r, bad := ParseRecord(file, data)
		if !bad.Failed() {
			l.Records[r.Holder()] = r
		}
		return bad
	})
	if found.Add(bad...); err != nil {
		return nil, found, err
	}
	bad, err = eachFile(tree, path.Join(dir, "addresses"), func(file string, data []byte) diag.List {
		k, bad := ParseLock(file, data)
		if !bad.Failed() {
			l.put(k)
		}
		return bad
	})
	found.Add(bad...)
	return l, found, err
}

func (l *Ledger) put(k *Lock) {
	if l.Locks[k.Pool] == nil {
		l.Locks[k.Pool] = map[netip.Addr]*Lock{}
	}
	l.Locks[k.Pool][k.Address] = k
}

// eachFile calls do for each file two folders down: <dir>/<folder>/<name>.yaml. Anything else there is found, except what begins
// with a dot: those are files being written.
func eachFile(tree fs.FS, dir string, do func(file string, data []byte) diag.List) (diag.List, error) {
	var found diag.List
	err := fs.WalkDir(tree, dir, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name == dir {
			return fs.SkipAll
		}
		if err != nil {
			return err
		}
		depth := strings.Count(strings.TrimPrefix(name, dir), "/")
		switch {
		case strings.HasPrefix(path.Base(name), ".") && name != dir:
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir() && depth < 2:
			return nil
		case !e.Type().IsRegular() || depth != 2 || path.Ext(name) != ".yaml":
			if path.Base(name) == "README.md" {
				return nil
			}
			found.Add(diag.Errorf(diag.Pos{File: name}, "ledger/stray", "this is not a file of the ledger").Hintf("the ledger is written by copyhold allocate: move it elsewhere"))
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		data, err := fs.ReadFile(tree, name)
		if errors.Is(err, fs.ErrPermission) {
			found.Add(diag.Errorf(diag.Pos{File: name}, "ledger/unreadable", "no permission to read the file"))
			return nil
		}
		if err != nil {
			return err
		}
		found.Add(do(name, data)...)
		return nil
	})
	if err != nil {
		return found, fmt.Errorf("reading ledger: %w", err)
	}
	return found, nil
}

// RecordFile and LockFile are the repository paths of a cluster's record and of an address's lock.
func (l *Ledger) RecordFile(holder string) string {
	return path.Join(l.dir, "clusters", holder+".yaml")
}

// LockFile is the repository path of an address's lock.
func (l *Ledger) LockFile(pool string, a netip.Addr) string {
	return path.Join(l.dir, "addresses", pool, FileName(a))
}

// AllLocks are the locks by pool and address.
func (l *Ledger) AllLocks() []*Lock {
	var out []*Lock
	for _, pool := range sortedKeys(l.Locks) {
		out = append(out, slices.SortedFunc(maps.Values(l.Locks[pool]), func(a, b *Lock) int { return a.Address.Compare(b.Address) })...)
	}
	return out
}

// AllRecords are the records by holder.
func (l *Ledger) AllRecords() []*Record {
	return slices.SortedFunc(maps.Values(l.Records), func(a, b *Record) int { return cmp.Compare(a.Holder(), b.Holder()) })
}

// Live are the clusters on record that are not released, by holder.
func (l *Ledger) Live() []string {
	var out []string
	for _, r := range l.AllRecords() {
		if r.Released == "" {
			out = append(out, r.Holder())
		}
	}
	return out
}

// Namespaces adds to some namespaces all that the ledger speaks of: a tenant's folder that vanished is still one.
func (l *Ledger) Namespaces(known []string) []string {
	all := slices.Clone(known)
	for _, r := range l.Records {
		all = append(all, r.Namespace)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// SubnetPool is the name of the pool that the server addresses of a subnet form. The dot keeps it apart from address pools, whose
// names have none; tenants' subnets may have the same addresses.
func SubnetPool(namespace, subnet string) string { return namespace + "." + subnet }

// sphere is the set of pools in which an address can be given out once only: all address pools together, each subnet by itself.
func sphere(pool string) string {
	if strings.Contains(pool, ".") {
		return pool
	}
	return ""
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
