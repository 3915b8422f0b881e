package render

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"strings"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
)

// keeper finds the addresses that the ledger has given out and no request stands for.
type keeper struct {
	*builder
	tenants map[string]*Tenant
	taken   map[netip.Addr]bool // by who is asked for, or found before
	held    []holding
	found   diag.List
	files   int // of the ledger, read or not
}

// kept are the addresses that stay in the address manifests beside those of the clusters that are asked for. First come records that are
// not released; then locks, of which a released one is its last holder's until the ledger gives the address to another.
func (b *builder) kept(held []holding) ([]holding, diag.List, error) {
	if !b.in.perTenant() {
		return nil, nil, nil
	}
	k := &keeper{builder: b, tenants: map[string]*Tenant{}, taken: map[netip.Addr]bool{}}
	for _, t := range b.in.Tenants {
		k.tenants[t.Namespace] = t
	}
	for _, h := range held {
		if a, err := netip.ParseAddr(h.address); err == nil {
			k.taken[a] = true
		}
	}
	if err := k.records(); err != nil {
		return nil, k.found, err
	}
	if err := k.locks(); err != nil {
		return nil, k.found, err
	}
	if n := b.takers(); k.files == 0 && n > 0 && b.in.Platform && !b.in.Complete {
		k.found.Add(diag.Errorf(diag.Pos{File: b.in.Folders.Ledger}, "ledger/missing", "the ledger is empty, and clusters are asked for that have their addresses from it (%d): MetalLB would give up all it has", n).
			Hintf("restore the folder from Git; where no address was ever given out, copyhold allocate"))
	}
	return k.held, k.found, nil
}

// keep takes an address into its holder's pool, unless a cluster that is asked for, or a record, has it.
func (k *keeper) keep(h holding) {
	if a, err := netip.ParseAddr(h.address); err == nil && !k.taken[a] {
		k.taken[a] = true
		k.held = append(k.held, h)
	}
}

// speaksFor reports whether the addresses of a namespace are asked for: where not all tenants are read, those of the ones that are, and of
// folders that are gone.
func (k *keeper) speaksFor(namespace string) bool {
	if k.in.Platform || k.tenants[namespace] != nil {
		return true
	}
	_, err := fs.Stat(k.tree, path.Join(k.in.Folders.Tenants, namespace))
	return errors.Is(err, fs.ErrNotExist)
}

func (k *keeper) records() error {
	dir := path.Join(k.in.Folders.Ledger, "clusters")
	namespaces, err := k.list(dir)
	if err != nil {
		return err
	}
	for _, ns := range namespaces {
		files, err := k.list(path.Join(dir, ns.Name()))
		if err != nil {
			return err
		}
		k.files += len(files)
		if len(files) == 0 || !k.speaksFor(ns.Name()) {
			continue
		}
		asked := map[string]bool{}
		if t := k.tenants[ns.Name()]; t != nil {
			for _, c := range t.Clusters {
				asked[c.Name+".yaml"] = true
			}
		}
		for _, f := range files {
			if name := path.Join(dir, ns.Name(), f.Name()); catalog.IsYAML(name) && !asked[f.Name()] {
				if r, ok := read(k, name, ledger.ParseRecord); ok && r.Released == "" && r.Address != "" {
					k.keep(k.recorded(r))
				}
			}
		}
	}
	return nil
}

// locks reads those locks alone whose address nobody is known to have.
func (k *keeper) locks() error {
	for _, pool := range catalog.Sorted(k.in.Catalog.AddressPools) {
		if k.in.Catalog.AddressPools[pool].Mode != catalog.ModePerTenant {
			continue
		}
		dir := path.Join(k.in.Folders.Ledger, "addresses", pool)
		files, err := k.list(dir)
		if err != nil {
			return err
		}
		k.files += len(files)
		for _, f := range files {
			if !catalog.IsYAML(f.Name()) || k.taken[ledger.FileAddress(f.Name())] {
				continue
			}
			l, ok := read(k, path.Join(dir, f.Name()), ledger.ParseLock)
			if !ok || l.Released() && k.in.Catalog.Pools[pool].State(l.Address) == ledger.Outside {
				continue
			}
			if ns, _, _ := strings.Cut(l.Holder, "/"); k.speaksFor(ns) {
				k.keep(holding{pool, ns, l.Address.String()})
			}
		}
	}
	return nil
}

// list names what is in a folder of the ledger; nothing when there is no such folder.
func (k *keeper) list(dir string) ([]fs.DirEntry, error) {
	if info, err := fs.Stat(k.tree, dir); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, nil
	}
	entries, err := readDir(k.tree, dir)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", dir, err)
	}
	return entries, nil
}

// read reads a file of the ledger. One that does not read is found: nobody knows whose address it gives away.
func read[T any](k *keeper, name string, parse func(string, []byte) (T, diag.List)) (T, bool) {
	data, err := fs.ReadFile(k.tree, name)
	if err != nil {
		k.found.Add(diag.Errorf(diag.Pos{File: name}, "ledger/unreadable", "the file cannot be read: %v", cause(err)).Hintf("restore the file from Git"))
		var none T
		return none, false
	}
	v, bad := parse(name, data)
	k.found.Add(bad...)
	return v, !bad.Failed()
}

// recorded is what a record holds. One that an older hand wrote without the address pool's name means the pool that has the address.
func (b *builder) recorded(r *ledger.Record) holding {
	h := holding{r.AddressPool, r.Namespace, r.Address}
	a, err := netip.ParseAddr(r.Address)
	for _, name := range catalog.Sorted(b.in.Catalog.Pools) {
		if h.pool == "" && err == nil && b.in.Catalog.Pools[name].State(a) != ledger.Outside {
			h.pool = name
		}
	}
	return h
}

// takers counts the clusters that are asked for in tiers whose addresses are manifests of the platform.
func (b *builder) takers() int {
	n := 0
	for _, t := range b.in.Tenants {
		for _, c := range t.Clusters {
			if b.in.Catalog.AddressPools[b.in.Catalog.Tiers[c.Spec.Tier].AddressPool].Mode == catalog.ModePerTenant {
				n++
			}
		}
	}
	return n
}
