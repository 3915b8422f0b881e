package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"copyhold.dev/copyhold/render/diag"
)

// Ledger is everything under the ledger folder: who has which address, and what each cluster was admitted with.
type Ledger struct {
	Records map[string]*Record              // by namespace/name
	Locks   map[string]map[netip.Addr]*Lock // by pool
	dir     string
}

// Load reads a ledger folder. A folder that is not there is an empty ledger. Files that do not parse are left out and found.
// Records that the caller has read already, by holder, are not read again; known may be nil.
func Load(tree fs.FS, dir string, known map[string]*Record) (*Ledger, diag.List, error) {
	l := &Ledger{Records: map[string]*Record{}, Locks: map[string]map[netip.Addr]*Lock{}, dir: dir}
	var records, locks []string
	var found, bad diag.List
	var err, errLocks error
	var wg sync.WaitGroup
	wg.Go(func() { locks, bad, errLocks = list(tree, path.Join(dir, "addresses")) })
	records, found, err = list(tree, path.Join(dir, "clusters"))
	wg.Wait()
	if found.Add(bad...); err != nil || errLocks != nil {
		return nil, found, cmp.Or(err, errLocks)
	}
	bad, err = parseAll(tree, records, func(file string) *Record {
		return known[path.Base(path.Dir(file))+"/"+trimYAML(path.Base(file))]
	}, ParseRecord, func(r *Record) { l.Records[r.Holder()] = r })
	if found.Add(bad...); err != nil {
		return nil, found, err
	}
	bad, err = parseAll(tree, locks, func(string) *Lock { return nil }, ParseLock, l.put)
	found.Add(bad...)
	return l, found, err
}

func (l *Ledger) put(k *Lock) {
	if l.Locks[k.Pool] == nil {
		l.Locks[k.Pool] = map[netip.Addr]*Lock{}
	}
	l.Locks[k.Pool][k.Address] = k
}

// list names the files two folders down: <dir>/<folder>/<name>.yaml. Anything else there is found, except what begins with a dot:
// those are files being written.
func list(tree fs.FS, dir string) ([]string, diag.List, error) {
	var files []string
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
		case e.IsDir() && depth < 2, path.Base(name) == "README.md":
		case e.Type().IsRegular() && depth == 2 && path.Ext(name) == ".yaml":
			files = append(files, name)
		default:
			found.Add(diag.Errorf(diag.Pos{File: name}, "ledger/stray", "this is not a file of the ledger").Hintf("the ledger is written by copyhold allocate: move it elsewhere"))
			if e.IsDir() {
				return fs.SkipDir
			}
		}
		return nil
	})
	if err != nil {
		return nil, found, fmt.Errorf("reading ledger: %w", err)
	}
	return files, found, nil
}

// parseAll reads and parses files, several at a time, and hands what is right to put, in order.
func parseAll[T any](tree fs.FS, files []string, known func(file string) *T, parse func(string, []byte) (*T, diag.List), put func(*T)) (diag.List, error) {
	type parsed struct {
		value *T
		found diag.List
		err   error
	}
	all := make([]parsed, len(files))
	workers := runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(files); i += workers {
				if all[i].value = known(files[i]); all[i].value != nil {
					continue
				}
				data, err := fs.ReadFile(tree, files[i])
				switch {
				case errors.Is(err, fs.ErrPermission):
					all[i].found = diag.List{diag.Errorf(diag.Pos{File: files[i]}, "ledger/unreadable", "no permission to read the file")}
				case err != nil:
					all[i].err = fmt.Errorf("reading ledger: %w", err)
				default:
					all[i].value, all[i].found = parse(files[i], data)
				}
			}
		})
	}
	wg.Wait()
	var found diag.List
	for _, p := range all {
		if p.err != nil {
			return found, p.err
		}
		found.Add(p.found...)
		if p.value != nil && !p.found.Failed() {
			put(p.value)
		}
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
	out := make([]*Record, 0, len(l.Records))
	for _, holder := range sortedKeys(l.Records) {
		out = append(out, l.Records[holder])
	}
	return out
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

// across is where those are that an address of a pool is held against beside its own sphere. A subnet reaches the control planes, so an
// address pool and a subnet must not share an address; two subnets may, where they are in networks of their own.
func across(pool string) string {
	if sphere(pool) == "" {
		return subnets
	}
	return ""
}

// subnets stands for the server addresses of all subnets together. No pool has that name.
const subnets = "."

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
