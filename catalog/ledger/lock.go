package ledger

import (
	"bytes"
	"net/netip"
	"path"
	"regexp"
	"strings"

	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/strict"
)

// KindLock is the kind of an address's file.
const KindLock = "AddressLock"

// Lock is one address's file, ledger/addresses/<pool>/<address>.yaml: who has it. Two branches that take one address write one
// file, and cannot both be merged. The file is never deleted, so that Git can never take it for the old name of another.
type Lock struct {
	Pool    string
	Address netip.Addr
	Holder  string // namespace/name; of a released address, its last holder
	Until   Date   // set when released: the first day on which another may have the address
	doc     strict.Document
}

// Date is a day, as 2026-12-01. It is compared with a day handed in; the ledger knows no clock.
type Date string

// Before reports whether d is an earlier day than o.
func (d Date) Before(o Date) bool { return d < o }

// The states of an address that has a file.
const (
	stateHeld     = "held"
	stateReleased = "released"
)

// Released reports whether nobody has the address now.
func (l *Lock) Released() bool { return l.Until != "" }

// At is the place of the value under a path of the lock's file.
func (l *Lock) At(p ...string) diag.Pos { return l.doc.At(p...) }

type lockFile struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Spec       lockSpec `json:"spec"`
}

// lockSpec repeats the address, so that a file under a wrong name is found out.
type lockSpec struct {
	Address string `json:"address"`
	Holder  string `json:"holder"`
	State   string `json:"state"`
	Until   string `json:"until,omitempty"`
}

// FileName is the one name of an address's file: IPv4 as it is, IPv6 in full length, lower case, with dashes. Two spellings of an
// address would be two files, and no lock at all.
func FileName(a netip.Addr) string {
	return strings.ReplaceAll(a.StringExpanded(), ":", "-") + ".yaml"
}

// FileAddress is the address whose file has that name; invalid when no address's file has.
func FileAddress(name string) netip.Addr {
	text := strings.TrimSuffix(name, ".yaml")
	if !strings.Contains(text, ".") {
		text = strings.ReplaceAll(text, "-", ":")
	}
	a, err := netip.ParseAddr(text)
	if err != nil || FileName(a) != name {
		return netip.Addr{}
	}
	return a
}

// ParseLock reads a lock from ledger/addresses/<pool>/<address>.yaml.
func ParseLock(file string, data []byte) (*Lock, diag.List) {
	restore := func(f diag.Finding) diag.List { return diag.List{f.Hintf("restore the file from Git")} }
	docs, found := strict.Parse(file, data)
	if found.Failed() {
		return nil, conflicted(file, data, "two branches took one address", found)
	}
	if len(docs) != 1 {
		return nil, restore(diag.Errorf(diag.Pos{File: file}, "ledger/malformed", "%d documents, want one %s", len(docs), KindLock))
	}
	d := docs[0]
	var f lockFile
	if bad := d.Decode("ledger", &f); bad.Failed() {
		return nil, bad
	}
	l := &Lock{Pool: path.Base(path.Dir(file)), Holder: f.Spec.Holder, Until: Date(f.Spec.Until), doc: d.Lean()}
	a, err := netip.ParseAddr(f.Spec.Address)
	switch {
	case f.APIVersion != APIVersion || f.Kind != KindLock:
		return nil, restore(diag.Errorf(d.At("kind"), "ledger/malformed", "%s %s, want %s %s", f.APIVersion, f.Kind, APIVersion, KindLock))
	case err != nil || !plain(a) || a.String() != f.Spec.Address:
		return nil, restore(diag.Errorf(d.At("spec", "address"), "ledger/malformed", "address %q, want an IP address in its shortest form", f.Spec.Address))
	case FileName(a) != path.Base(file):
		return nil, diag.List{diag.Errorf(d.At("spec", "address"), "ledger/wrong-place", "the file speaks of %s, whose file is %s", a, path.Join(path.Dir(file), FileName(a))).
			Hintf("an address has one file under one name: restore it from Git")}
	case strings.Count(l.Holder, "/") != 1:
		return nil, restore(diag.Errorf(d.At("spec", "holder"), "ledger/malformed", "holder %q, want namespace/name", l.Holder))
	case f.Spec.State == stateHeld && l.Until != "", f.Spec.State == stateReleased && !validDate(l.Until), f.Spec.State != stateHeld && f.Spec.State != stateReleased:
		return nil, restore(diag.Errorf(d.At("spec", "state"), "ledger/malformed", "state %q with until %q, want held, or released with a date", f.Spec.State, l.Until))
	}
	l.Address = a
	return l, found
}

// conflicted finds the marks of a Git conflict in a file that does not parse; without them it is found to be what it is found to be.
func conflicted(file string, data []byte, what string, found diag.List) diag.List {
	n := 0
	for line := range bytes.Lines(data) {
		if n++; bytes.HasPrefix(line, []byte("<<<<<<< ")) {
			return diag.List{diag.Errorf(diag.Pos{File: file, Line: n}, "ledger/conflict", "the file holds a Git conflict: %s", what).
				Hintf("take the ledger folder as it is merged already, then run copyhold allocate: docs/ledger.md has the commands")}
		}
	}
	return found
}

var datePattern = regexp.MustCompile(`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$`)

func validDate(d Date) bool { return datePattern.MatchString(string(d)) }

// FormatLock is the inverse of ParseLock: the same lock always gives the same bytes.
func FormatLock(l *Lock) ([]byte, error) {
	state := stateHeld
	if l.Released() {
		state = stateReleased
	}
	return strict.Marshal(lockFile{
		APIVersion: APIVersion,
		Kind:       KindLock,
		Spec:       lockSpec{Address: l.Address.String(), Holder: l.Holder, State: state, Until: string(l.Until)},
	})
}
