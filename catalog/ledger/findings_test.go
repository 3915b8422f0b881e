package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"copyhold.dev/copyhold/render/diag"
)

const (
	lockHead   = "apiVersion: copyhold.dev/v1alpha1\nkind: AddressLock\n"
	recordHead = "apiVersion: copyhold.dev/v1alpha1\nkind: ClusterRecord\n"
)

// held, released and record are files of a ledger.
func held(address, holder string) string {
	return lockHead + fmt.Sprintf("spec: {address: %q, holder: %s, state: held}\n", address, holder)
}

func released(address, holder, until string) string {
	return lockHead + fmt.Sprintf("spec: {address: %q, holder: %s, state: released, until: %s}\n", address, holder, until)
}

func record(holder, spec string) string {
	ns, name, _ := strings.Cut(holder, "/")
	return recordHead + fmt.Sprintf("metadata: {namespace: %s, name: %s}\nspec: {%s}\n", ns, name, spec)
}

// files is a ledger as a file tree.
func files(f map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range f {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

// read reads a ledger from the folder that it always has here.
func read(tree fs.FS) (*Ledger, diag.List, error) { return Load(tree, "ledger", nil) }

// load reads a ledger in which every file must be right.
func load(t *testing.T, f map[string]string) *Ledger {
	t.Helper()
	l, found, err := read(files(f))
	if err != nil || len(found) > 0 {
		t.Fatalf("Load = %v, %s", err, found)
	}
	return l
}

func TestLoad(t *testing.T) {
	l := load(t, map[string]string{
		"ledger/README.md":                                                            "# Ledger",
		"ledger/clusters/README.md":                                                   "# Clusters",
		"ledger/clusters/photon-prod/solar.yaml":                                      record("photon-prod/solar", "address: 172.21.208.100, addressPool: tenant-cp-pool"),
		"ledger/clusters/photon-prod/.copyhold-123":                                   "half a fi",
		"ledger/clusters/.git/config.yaml":                                            "not ours",
		"ledger/addresses/tenant-cp-pool/172.21.208.100.yaml":                         held("172.21.208.100", "photon-prod/solar"),
		"ledger/addresses/tenant-cp-pool/172.21.208.101.yaml":                         released("172.21.208.101", "photon-prod/lunar", "2026-12-31"),
		"ledger/addresses/v6/2001-0db8-0000-0000-0000-0000-0000-00ff.yaml":            held("2001:db8::ff", "photon-prod/solar"),
		"ledger/addresses/photon-prod.production/10.100.0.240.yaml":                   held("10.100.0.240", "photon-prod/solar"),
		"ledger/addresses/photon-prod.production/.copyhold-4":                         "",
		"ledger/notes/anything.txt":                                                   "no part of the ledger",
		"ledger/addresses/tenant-cp-pool/README.md":                                   "# Pool",
		"elsewhere/addresses/tenant-cp-pool/2001-0DB8-wrong-name-but-not-our-job.yml": "",
	})
	want := model{
		locks: map[spot]hold{
			{"tenant-cp-pool", "172.21.208.100"}:       {"photon-prod/solar", ""},
			{"tenant-cp-pool", "172.21.208.101"}:       {"photon-prod/lunar", "2026-12-31"},
			{"v6", "2001:db8::ff"}:                     {"photon-prod/solar", ""},
			{"photon-prod.production", "10.100.0.240"}: {"photon-prod/solar", ""},
		},
		records: map[string]entry{"photon-prod/solar": {address: "172.21.208.100", addressPool: "tenant-cp-pool", defaults: "{}"}},
	}
	if got := asModel(l); !want.equal(got) {
		t.Errorf("Load (-want +got):\n%s", cmp.Diff(want, got, cmp.AllowUnexported(model{}, spot{}, hold{}, entry{})))
	}
	if got := asModel(load(t, nil)); !(model{}).equal(got) {
		t.Errorf("Load of nothing = %v, want an empty ledger", got)
	}
	for _, c := range []struct{ pool, address, want string }{
		{"tenant-cp-pool", "172.21.208.100", "ledger/addresses/tenant-cp-pool/172.21.208.100.yaml"},
		{"v6", "2001:db8::ff", "ledger/addresses/v6/2001-0db8-0000-0000-0000-0000-0000-00ff.yaml"},
		{"v6", "::", "ledger/addresses/v6/0000-0000-0000-0000-0000-0000-0000-0000.yaml"},
	} {
		if got := l.LockFile(c.pool, netip.MustParseAddr(c.address)); got != c.want {
			t.Errorf("LockFile(%s, %s) = %s, want %s", c.pool, c.address, got, c.want)
		}
	}
	if got, want := l.RecordFile("photon-prod/solar"), "ledger/clusters/photon-prod/solar.yaml"; got != want {
		t.Errorf("RecordFile = %s, want %s", got, want)
	}
}

const (
	v4 = "ledger/addresses/tenant-cp-pool/172.21.208.100.yaml"
	v6 = "ledger/addresses/v6/2001-0db8-0000-0000-0000-0000-0000-00ff.yaml"
	rc = "ledger/clusters/photon-prod/solar.yaml"
)

// A file that is not right is left out of the ledger and found, with its place and the way out.
func TestLoadFindings(t *testing.T) {
	spec := func(s string) string { return lockHead + "spec: " + s + "\n" }
	for _, c := range []struct{ name, file, text, want string }{
		{"lock: another kind", v4, "apiVersion: v1\nkind: Secret\nspec: {address: 172.21.208.100, holder: photon-prod/solar, state: held}\n",
			v4 + `:2:7: v1 Secret, want copyhold.dev/v1alpha1 AddressLock [ledger/malformed]
  hint: restore the file from Git
`},
		{"lock: empty", v4, "# nothing\n", v4 + `: 0 documents, want one AddressLock [ledger/malformed]
  hint: restore the file from Git
`},
		{"lock: two", v4, held("172.21.208.100", "photon-prod/solar") + "---\n" + held("172.21.208.100", "photon-prod/lunar"), v4 + `: 2 documents, want one AddressLock [ledger/malformed]
  hint: restore the file from Git
`},
		{"lock: no address", v4, spec("{holder: photon-prod/solar, state: held}"), v4 + `:3:7: address "", want an IP address in its shortest form [ledger/malformed]
  hint: restore the file from Git
`},
		{"lock: long address", v6, held("2001:0db8::00ff", "photon-prod/solar"), v6 + `:3:17: address "2001:0db8::00ff", want an IP address in its shortest form [ledger/malformed]
  hint: restore the file from Git
`},
		{"lock: upper-case address", v6, held("2001:DB8::FF", "photon-prod/solar"), v6 + `:3:17: address "2001:DB8::FF", want an IP address in its shortest form [ledger/malformed]
  hint: restore the file from Git
`},
		{"lock: IPv4 as IPv6", v4, held("::ffff:172.21.208.100", "photon-prod/solar"), v4 + `:3:17: address "::ffff:172.21.208.100", want an IP address in its shortest form [ledger/malformed]
  hint: restore the file from Git
`},
		{"lock: zone", v6, held("2001:db8::ff%eth0", "photon-prod/solar"), v6 + `:3:17: address "2001:db8::ff%eth0", want an IP address in its shortest form [ledger/malformed]
  hint: restore the file from Git
`},
		{"lock: of another address", v4, held("172.21.208.101", "photon-prod/solar"), v4 + `:3:17: the file speaks of 172.21.208.101, whose file is ledger/addresses/tenant-cp-pool/172.21.208.101.yaml [ledger/wrong-place]
  hint: an address has one file under one name: restore it from Git
`},
		{"lock: short file name", "ledger/addresses/v6/2001-db8--ff.yaml", held("2001:db8::ff", "photon-prod/solar"),
			`ledger/addresses/v6/2001-db8--ff.yaml:3:17: the file speaks of 2001:db8::ff, whose file is ` + v6 + ` [ledger/wrong-place]
  hint: an address has one file under one name: restore it from Git
`},
		{"lock: upper-case file name", "ledger/addresses/v6/2001-0DB8-0000-0000-0000-0000-0000-00FF.yaml", held("2001:db8::ff", "photon-prod/solar"),
			`ledger/addresses/v6/2001-0DB8-0000-0000-0000-0000-0000-00FF.yaml:3:17: the file speaks of 2001:db8::ff, whose file is ` + v6 + ` [ledger/wrong-place]
  hint: an address has one file under one name: restore it from Git
`},
		{"lock: nobody's", v4, held("172.21.208.100", "solar"), v4 + `:3:43: holder "solar", want namespace/name [ledger/malformed]
  hint: restore the file from Git
`},
		{"lock: held until", v4, spec(`{address: 172.21.208.100, holder: photon-prod/solar, state: held, until: 2026-12-31}`), v4 + `:3:67: state "held" with until "2026-12-31", want held, or released with a date [ledger/malformed]
  hint: restore the file from Git
`},
		{"lock: released until nothing", v4, spec("{address: 172.21.208.100, holder: photon-prod/solar, state: released}"), v4 + `:3:67: state "released" with until "", want held, or released with a date [ledger/malformed]
  hint: restore the file from Git
`},
		{"lock: another state", v4, spec("{address: 172.21.208.100, holder: photon-prod/solar, state: free}"), v4 + `:3:67: state "free" with until "", want held, or released with a date [ledger/malformed]
  hint: restore the file from Git
`},
		{"lock: unknown field", v4, spec("{address: 172.21.208.100, holder: photon-prod/solar, state: held, untill: 2026-12-31}"), v4 + `:3:73: unknown field "untill" in spec, want one of address, holder, state, until [ledger/unknown-field]
  hint: did you mean "until"?
`},
		{"lock: wrong type", v4, spec("[]"), v4 + `:3:7: spec: want a mapping (key: value), got a list [ledger/wrong-type]
`},
		{"lock: not YAML", v4, "spec: [\n", v4 + `:1: did not find expected node content [yaml/syntax]
  hint: look at this line and those beside it: indentation, a space after each colon, quotes around values that start with @, ` + "` or %\n"},
		{"lock: conflict", v4, lockHead + "spec:\n  address: 172.21.208.100\n<<<<<<< HEAD\n  holder: photon-prod/solar\n=======\n  holder: dynamo-prod/solar\n>>>>>>> theirs\n  state: held\n",
			v4 + `:5: the file holds a Git conflict: two branches took one address [ledger/conflict]
  hint: take the ledger folder as it is merged already, then run copyhold allocate: docs/ledger.md has the commands
`},

		{"record: another kind", rc, "apiVersion: copyhold.dev/v1\nkind: ClusterRecord\nmetadata: {namespace: photon-prod, name: solar}\n", rc + `:2:7: copyhold.dev/v1 ClusterRecord, want copyhold.dev/v1alpha1 ClusterRecord [ledger/malformed]
`},
		{"record: empty", rc, "", rc + `: 0 documents, want one ClusterRecord [ledger/malformed]
  hint: restore the file from Git
`},
		{"record: of another cluster", rc, record("photon-prod/lunar", ""), rc + `:3:11: the record speaks of photon-prod/lunar, but its file is that of photon-prod/solar [ledger/wrong-place]
  hint: restore the file from Git
`},
		{"record: of another namespace", rc, record("dynamo-prod/solar", ""), rc + `:3:11: the record speaks of dynamo-prod/solar, but its file is that of photon-prod/solar [ledger/wrong-place]
  hint: restore the file from Git
`},
		{"record: bad addresses", rc, record("photon-prod/solar", `address: 172.21.208.300, serverAddress: "2001:DB8::1"`), rc + `:4:17: address "172.21.208.300", want an IP address in its shortest form [ledger/malformed]
` + rc + `:4:48: serverAddress "2001:DB8::1", want an IP address in its shortest form [ledger/malformed]
`},
		{"record: a pool that leads out of the ledger", rc, record("photon-prod/solar", "address: 172.21.208.100, addressPool: ../../elsewhere"), rc + `:4:46: addressPool "../../elsewhere", want the name of a pool [ledger/malformed]
`},
		{"record: a pool that nobody would look into", rc, record("photon-prod/solar", "serverAddress: 10.100.0.240, serverPool: .hidden"), rc + `:4:49: serverPool ".hidden", want the name of a pool [ledger/malformed]
`},
		{"record: released some day", rc, record("photon-prod/solar", "released: soon"), rc + `:4:18: released "soon", want a day as 2026-12-01 [ledger/malformed]
`},
		{"record: unknown field", rc, record("photon-prod/solar", "adress: 172.21.208.100"), rc + `:4:8: unknown field "adress" in spec, want one of address, addressPool, class, defaults, reason, released, rollouts, serverAddress, serverPool [ledger/unknown-field]
  hint: did you mean "address"?
`},
		{"record: wrong type", rc, record("photon-prod/solar", "defaults: [a]"), rc + `:4:18: spec.defaults: want a mapping (key: value), got a list [ledger/wrong-type]
`},
		{"record: conflict", rc, recordHead + "metadata: {namespace: photon-prod, name: solar}\nspec:\n<<<<<<< HEAD\n  address: 172.21.208.100\n=======\n  address: 172.21.208.101\n>>>>>>> theirs\n",
			rc + `:5: the file holds a Git conflict: two branches changed one cluster [ledger/conflict]
  hint: take the ledger folder as it is merged already, then run copyhold allocate: docs/ledger.md has the commands
`},

		{"stray: too high", "ledger/clusters/solar.yaml", record("photon-prod/solar", ""), `ledger/clusters/solar.yaml: this is not a file of the ledger [ledger/stray]
  hint: the ledger is written by copyhold allocate: move it elsewhere
`},
		{"stray: too deep", "ledger/addresses/tenant-cp-pool/old/172.21.208.100.yaml", "", `ledger/addresses/tenant-cp-pool/old: this is not a file of the ledger [ledger/stray]
  hint: the ledger is written by copyhold allocate: move it elsewhere
`},
		{"stray: another ending", "ledger/addresses/tenant-cp-pool/172.21.208.100.yml", "", `ledger/addresses/tenant-cp-pool/172.21.208.100.yml: this is not a file of the ledger [ledger/stray]
  hint: the ledger is written by copyhold allocate: move it elsewhere
`},
		{"stray: a backup", v4 + "~", "", v4 + `~: this is not a file of the ledger [ledger/stray]
  hint: the ledger is written by copyhold allocate: move it elsewhere
`},
		{"stray: a file in a folder's place", "ledger/addresses", "", `ledger/addresses: this is not a file of the ledger [ledger/stray]
  hint: the ledger is written by copyhold allocate: move it elsewhere
`},
	} {
		l, found, err := read(files(map[string]string{c.file: c.text}))
		if err != nil {
			t.Errorf("%s: Load = %v", c.name, err)
			continue
		}
		if d := cmp.Diff(c.want, found.String()); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
		if len(l.Records)+len(l.Locks) > 0 {
			t.Errorf("%s: Load keeps %v, %v", c.name, l.Records, l.Locks)
		}
	}
}

// A date that can be written in two ways cannot be compared as text.
func TestParseLockDates(t *testing.T) {
	for until, ok := range map[string]bool{
		"2026-12-01": true, "2024-02-29": true, "9999-12-31": true, "0001-01-01": true,
		"": false, "2026-12-1": false, "2026-1-001": false, "26-12-0001": false, "2026-13-01": false, "2026-00-01": false, "2026-12-32": false, "2026-12-00": false,
		"2026/12/01": false, "2026-12-01T00:00:00Z": false, "2026-12-01 ": false, " 026-12-01": false, "+026-12-01": false, "2026-+1-01": false, "2026- 1-01": false, "tomorrow": false,
	} {
		_, found := ParseLock(v4, []byte(lockHead+fmt.Sprintf("spec: {address: 172.21.208.100, holder: photon-prod/solar, state: released, until: %q}\n", until)))
		if found.Failed() == ok {
			t.Errorf("ParseLock with until %q = %s, want valid %v", until, found, ok)
		}
	}
}

// refusing is a tree in which some names cannot be opened.
type refusing struct {
	fs.FS
	name string
	err  error
}

func (r refusing) Open(name string) (fs.File, error) {
	if name == r.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: r.err}
	}
	return r.FS.Open(name)
}

func TestLoadUnreadable(t *testing.T) {
	tree := files(map[string]string{
		v4: held("172.21.208.100", "photon-prod/solar"),
		v6: held("2001:db8::ff", "photon-prod/solar"),
		rc: record("photon-prod/solar", ""),
	})
	for _, file := range []string{v4, rc} {
		l, found, err := read(refusing{tree, file, fs.ErrPermission})
		if d := cmp.Diff(file+": no permission to read the file [ledger/unreadable]\n", found.String()); err != nil || d != "" {
			t.Errorf("Load without permission for %s = %v (-want +got):\n%s", file, err, d)
		}
		if l == nil || len(l.Locks) == 0 {
			t.Errorf("Load without permission for %s leaves out the other files", file)
		}
	}
	// What cannot be read at all must not pass for an empty ledger.
	broken := errors.New("input/output error")
	for _, name := range []string{v4, rc, "ledger/addresses", "ledger/clusters", "ledger/addresses/v6"} {
		_, _, err := read(refusing{tree, name, broken})
		if want := "reading ledger: open " + name + ": input/output error"; err == nil || err.Error() != want {
			t.Errorf("Load with a fault at %s = %v, want %s", name, err, want)
		}
	}
	tree["ledger/addresses/tenant-cp-pool/172.21.208.101.yaml"] = &fstest.MapFile{Data: []byte("172.21.208.100.yaml"), Mode: fs.ModeSymlink}
	_, found, err := read(tree)
	if want := "ledger/addresses/tenant-cp-pool/172.21.208.101.yaml: this is not a file of the ledger [ledger/stray]\n  hint: the ledger is written by copyhold allocate: move it elsewhere\n"; err != nil || found.String() != want {
		t.Errorf("Load with a link = %v, %s, want %s", err, found, want)
	}
}

// want is a request in tenants/<holder>.yaml: its address is asked for on line 8, its server address on line 9.
func want(holder string, claims ...Claim) Wanted {
	ns, name, _ := strings.Cut(holder, "/")
	w := Wanted{Namespace: ns, Name: name, Claims: claims, At: diag.Pos{File: "tenants/" + holder + ".yaml", Line: 4, Col: 9}}
	for i := range w.Claims {
		w.Claims[i].At = diag.Pos{File: w.At.File, Line: 8 + i, Col: 12}
	}
	return w
}

func anyOf(pool string) Claim { return Claim{Field: "address", Pool: pool} }

func pinned(pool, address string) Claim {
	return Claim{Field: "address", Pool: pool, Pin: netip.MustParseAddr(address)}
}

func server(pool, address string) Claim {
	pin, _ := netip.ParseAddr(address)
	return Claim{Field: "serverAddress", Pool: pool, Pin: pin}
}

// small is a world of pools in which tests count on their fingers.
func small(t *testing.T) map[string]Pool {
	return map[string]Pool{
		"tenant-cp-pool":         {Name: "tenant-cp-pool", Ranges: ranges(t, "172.21.208.100-172.21.208.103"), Reserved: ranges(t, "172.21.208.103")},
		"one":                    {Name: "one", Ranges: ranges(t, "192.0.2.1")},
		"photon-prod.production": {Name: "photon-prod.production", Ranges: ranges(t, "10.100.0.240-10.100.0.241")},
	}
}

const (
	lock100  = "ledger/addresses/tenant-cp-pool/172.21.208.100.yaml"
	lock101  = "ledger/addresses/tenant-cp-pool/172.21.208.101.yaml"
	lock240  = "ledger/addresses/photon-prod.production/10.100.0.240.yaml"
	lockOne  = "ledger/addresses/one/192.0.2.1.yaml"
	solarRec = "ledger/clusters/photon-prod/solar.yaml"
	lunarRec = "ledger/clusters/dynamo-prod/lunar.yaml"
	solarAt  = "tenants/photon-prod/solar.yaml"
	lunarAt  = "tenants/dynamo-prod/lunar.yaml"
	at100    = "address: 172.21.208.100, addressPool: tenant-cp-pool"
	at101    = "address: 172.21.208.101, addressPool: tenant-cp-pool"
)

type planCase struct {
	name   string
	ledger map[string]string
	wanted []Wanted
	move   bool
	found  string            // findings, with hints
	words  string            // a line each
	after  map[string]string // what the files that are written say
}

// planCases are plans of 2026-12-01 with thirty days of quarantine.
var planCases = []planCase{
	{name: "exhausted by others", wanted: []Wanted{want("photon-prod/solar", anyOf("one"))},
		ledger: map[string]string{lockOne: held("192.0.2.1", "dynamo-prod/lunar")},
		found: solarAt + `:8:12: no address is free for photon-prod/solar in address pool "one", 192.0.2.1: 1 in all, 0 reserved, 1 held, 0 in quarantine [ledger/exhausted]
  hint: the platform team adds addresses under addressPools.one in the catalog, or somebody gives one back; copyhold ledger pools lists who has what
`},
	{name: "exhausted by quarantine", wanted: []Wanted{want("photon-prod/solar", anyOf("one"))},
		ledger: map[string]string{lockOne: released("192.0.2.1", "dynamo-prod/lunar", "2026-12-02")},
		found: solarAt + `:8:12: no address is free for photon-prod/solar in address pool "one", 192.0.2.1: 1 in all, 0 reserved, 0 held, 1 in quarantine (the first until 2026-12-02) [ledger/exhausted]
  hint: wait until 2026-12-02, or the platform team adds addresses under addressPools.one in the catalog, or somebody gives one back; copyhold ledger pools lists who has what
`},
	{name: "exhausted by subnets", wanted: []Wanted{want("photon-prod/solar", anyOf("one"))},
		ledger: map[string]string{"ledger/addresses/dynamo-prod.production/192.0.2.1.yaml": held("192.0.2.1", "dynamo-prod/lunar")},
		found: solarAt + `:8:12: no address is free for photon-prod/solar in address pool "one", 192.0.2.1: 1 in all, 0 reserved, 0 held, 0 in quarantine, 1 the serverAddress of others [ledger/exhausted]
  hint: the platform team adds addresses under addressPools.one in the catalog, or somebody gives one back; copyhold ledger pools lists who has what
`},
	{name: "exhausted by this very plan", wanted: []Wanted{want("photon-prod/solar", anyOf("one")), want("dynamo-prod/lunar", anyOf("one"))},
		found: solarAt + `:8:12: no address is free for photon-prod/solar in address pool "one", 192.0.2.1: 1 in all, 0 reserved, 1 held, 0 in quarantine [ledger/exhausted]
  hint: the platform team adds addresses under addressPools.one in the catalog, or somebody gives one back; copyhold ledger pools lists who has what
`},
	{name: "no such pool", wanted: []Wanted{want("photon-prod/solar", anyOf("nowhere"))},
		found: solarAt + `:8:12: no address is free for photon-prod/solar: there is no pool "nowhere" [ledger/exhausted]
`},
	{name: "every finding at once", wanted: []Wanted{want("photon-prod/solar", pinned("one", "192.0.2.9"), server("photon-prod.production", "10.100.0.239")), want("dynamo-prod/lunar", pinned("tenant-cp-pool", "172.21.208.103"))},
		found: lunarAt + `:8:12: address 172.21.208.103 of dynamo-prod/lunar is reserved in address pool "tenant-cp-pool": 172.21.208.103 [pool/reserved]
  hint: choose another of 172.21.208.100-172.21.208.103, or remove the field and run copyhold allocate
` + solarAt + `:8:12: address 192.0.2.9 of photon-prod/solar is not in address pool "one", 192.0.2.1: 1 in all, 0 reserved, 0 held, 0 in quarantine [pool/outside]
  hint: choose one of those, or remove the field and run copyhold allocate
` + solarAt + `:9:12: serverAddress 10.100.0.239 of photon-prod/solar is not in the serverAddresses of subnet photon-prod/production, 10.100.0.240-10.100.0.241: 2 in all, 0 reserved, 0 held, 0 in quarantine [pool/outside]
  hint: choose one of those, or remove the field and run copyhold allocate
`},
	{name: "pin held", wanted: []Wanted{want("photon-prod/solar", pinned("tenant-cp-pool", "172.21.208.100"))},
		ledger: map[string]string{lock100: held("172.21.208.100", "dynamo-prod/lunar"), lunarRec: record("dynamo-prod/lunar", at100)},
		found: solarAt + `:8:12: address 172.21.208.100 of photon-prod/solar is held by dynamo-prod/lunar [ledger/held]
  hint: choose another, or remove the field and run copyhold allocate
`},
	{name: "pin held by a record without its lock", wanted: []Wanted{want("photon-prod/solar", pinned("tenant-cp-pool", "172.21.208.100"))},
		ledger: map[string]string{lunarRec: record("dynamo-prod/lunar", at100)},
		found: solarAt + `:8:12: address 172.21.208.100 of photon-prod/solar is held by dynamo-prod/lunar [ledger/held]
  hint: choose another, or remove the field and run copyhold allocate
`},
	{name: "pin held in a pool of another name", wanted: []Wanted{want("photon-prod/solar", pinned("tenant-cp-pool", "172.21.208.100"))},
		ledger: map[string]string{"ledger/addresses/old-pool/172.21.208.100.yaml": held("172.21.208.100", "dynamo-prod/lunar")},
		found: solarAt + `:8:12: address 172.21.208.100 of photon-prod/solar is held by dynamo-prod/lunar [ledger/held]
  hint: choose another, or remove the field and run copyhold allocate
`},
	{name: "two requests pin one address", wanted: []Wanted{want("photon-prod/solar", pinned("tenant-cp-pool", "172.21.208.100")), want("dynamo-prod/lunar", pinned("tenant-cp-pool", "172.21.208.100"))},
		found: solarAt + `:8:12: address 172.21.208.100 of photon-prod/solar is held by dynamo-prod/lunar [ledger/held]
  hint: choose another, or remove the field and run copyhold allocate
`},
	{name: "two requests pin one address, named the other way round", wanted: []Wanted{want("dynamo-prod/lunar", pinned("tenant-cp-pool", "172.21.208.100")), want("photon-prod/solar", pinned("tenant-cp-pool", "172.21.208.100"))},
		found: solarAt + `:8:12: address 172.21.208.100 of photon-prod/solar is held by dynamo-prod/lunar [ledger/held]
  hint: choose another, or remove the field and run copyhold allocate
`},
	{name: "pin held by a record without its pool", wanted: []Wanted{want("photon-prod/lunar", server("photon-prod.production", "10.100.0.240")), want("photon-prod/solar", server("photon-prod.production", ""))},
		ledger: map[string]string{solarRec: record("photon-prod/solar", "serverAddress: 10.100.0.240")},
		found: `tenants/photon-prod/lunar.yaml:8:12: serverAddress 10.100.0.240 of photon-prod/lunar is held by photon-prod/solar [ledger/held]
  hint: choose another, or remove the field and run copyhold allocate
`},
	{name: "exhausted by a record without its pool", wanted: []Wanted{want("photon-prod/lunar", server("photon-prod.production", "")), want("photon-prod/solar", server("photon-prod.production", ""))},
		ledger: map[string]string{
			solarRec: record("photon-prod/solar", "serverAddress: 10.100.0.240"),
			"ledger/addresses/photon-prod.production/10.100.0.241.yaml": held("10.100.0.241", "photon-prod/tidal"),
		},
		found: `tenants/photon-prod/lunar.yaml:8:12: no address is free for photon-prod/lunar in the serverAddresses of subnet photon-prod/production, 10.100.0.240-10.100.0.241: 2 in all, 0 reserved, 2 held, 0 in quarantine [ledger/exhausted]
  hint: widen spec.serverAddresses of SubnetRequest "production", or somebody gives one back; copyhold ledger pools lists who has what
`},
	{name: "pin in quarantine", wanted: []Wanted{want("photon-prod/solar", pinned("tenant-cp-pool", "172.21.208.100"))},
		ledger: map[string]string{lock100: released("172.21.208.100", "dynamo-prod/lunar", "2026-12-02")},
		found: solarAt + `:8:12: address 172.21.208.100 of photon-prod/solar was released by dynamo-prod/lunar and is in quarantine until 2026-12-02 [ledger/quarantine]
  hint: choose another, or remove the field and run copyhold allocate
`},
	{name: "pin out of quarantine on its day", wanted: []Wanted{want("photon-prod/solar", pinned("tenant-cp-pool", "172.21.208.100"))},
		ledger: map[string]string{lock100: released("172.21.208.100", "dynamo-prod/lunar", "2026-12-01")},
		words:  "photon-prod/solar takes 172.21.208.100 of tenant-cp-pool\n",
		after:  map[string]string{lock100: held("172.21.208.100", "photon-prod/solar"), solarRec: record("photon-prod/solar", at100)}},
	{name: "pin differs", wanted: []Wanted{want("photon-prod/solar", pinned("tenant-cp-pool", "172.21.208.101"))},
		ledger: map[string]string{lock100: held("172.21.208.100", "photon-prod/solar"), solarRec: record("photon-prod/solar", at100)},
		found: solarAt + `:8:12: address 172.21.208.101, but the ledger has 172.21.208.100 for photon-prod/solar [ledger/address-differs]
  hint: write 172.21.208.100, or remove the field; --move takes the new one, and breaks kubeconfigs and certificates
`},
	{name: "move", move: true, wanted: []Wanted{want("photon-prod/solar", pinned("tenant-cp-pool", "172.21.208.101"))},
		ledger: map[string]string{lock100: held("172.21.208.100", "photon-prod/solar"), solarRec: record("photon-prod/solar", at100)},
		words:  "photon-prod/solar takes 172.21.208.101 of tenant-cp-pool\nphoton-prod/solar MOVES from 172.21.208.100 to 172.21.208.101: kubeconfigs and certificates with the old address break\n",
		after:  map[string]string{lock100: released("172.21.208.100", "photon-prod/solar", "2026-12-31"), lock101: held("172.21.208.101", "photon-prod/solar"), solarRec: record("photon-prod/solar", at101)}},
	{name: "a move does not release what is another's", move: true, wanted: []Wanted{want("photon-prod/solar", pinned("tenant-cp-pool", "172.21.208.101")), want("dynamo-prod/lunar", anyOf("tenant-cp-pool"))},
		ledger: map[string]string{lock100: held("172.21.208.100", "dynamo-prod/lunar"), lunarRec: record("dynamo-prod/lunar", at100), solarRec: record("photon-prod/solar", at100)},
		words:  "photon-prod/solar takes 172.21.208.101 of tenant-cp-pool\nphoton-prod/solar MOVES from 172.21.208.100 to 172.21.208.101: kubeconfigs and certificates with the old address break\n",
		after:  map[string]string{lock101: held("172.21.208.101", "photon-prod/solar"), solarRec: record("photon-prod/solar", at101)}},
	{name: "a move does not release what is on another's record", move: true, wanted: []Wanted{want("photon-prod/solar", pinned("tenant-cp-pool", "172.21.208.101"))},
		ledger: map[string]string{"ledger/clusters/quark-dev/tidal.yaml": record("quark-dev/tidal", at100), solarRec: record("photon-prod/solar", at100)},
		words:  "photon-prod/solar takes 172.21.208.101 of tenant-cp-pool\nphoton-prod/solar MOVES from 172.21.208.100 to 172.21.208.101: kubeconfigs and certificates with the old address break\n",
		after:  map[string]string{lock101: held("172.21.208.101", "photon-prod/solar"), solarRec: record("photon-prod/solar", at101)}},
	{name: "hand-made duplicate, with the other's lock", wanted: []Wanted{want("photon-prod/solar", anyOf("tenant-cp-pool")), want("dynamo-prod/lunar", anyOf("tenant-cp-pool"))},
		ledger: map[string]string{lock100: held("172.21.208.100", "dynamo-prod/lunar"), lunarRec: record("dynamo-prod/lunar", at100), solarRec: record("photon-prod/solar", at100)},
		found: solarAt + `:8:12: address 172.21.208.100 of photon-prod/solar is held by dynamo-prod/lunar [ledger/held]
  hint: one of the two came second and must get another address: see git log ` + lock100 + `, remove that one's record and run copyhold allocate
`},
	{name: "hand-made duplicate, without a lock", wanted: []Wanted{want("photon-prod/solar", anyOf("tenant-cp-pool")), want("dynamo-prod/lunar", anyOf("tenant-cp-pool"))},
		ledger: map[string]string{lunarRec: record("dynamo-prod/lunar", at100), solarRec: record("photon-prod/solar", at100)},
		found: lunarAt + `:8:12: address 172.21.208.100 of dynamo-prod/lunar is held by photon-prod/solar [ledger/held]
  hint: one of the two came second and must get another address: see git log ` + lock100 + `, remove that one's record and run copyhold allocate
`},
	{name: "hand-made duplicate, with a lock that nobody holds any more", wanted: []Wanted{want("photon-prod/solar", anyOf("tenant-cp-pool")), want("dynamo-prod/lunar", anyOf("tenant-cp-pool"))},
		ledger: map[string]string{lock100: released("172.21.208.100", "dynamo-prod/lunar", "2026-11-01"), lunarRec: record("dynamo-prod/lunar", at100), solarRec: record("photon-prod/solar", at100)},
		found: lunarAt + `:8:12: address 172.21.208.100 of dynamo-prod/lunar is held by photon-prod/solar [ledger/held]
  hint: one of the two came second and must get another address: see git log ` + lock100 + `, remove that one's record and run copyhold allocate
`},
	{name: "lock and record disagree", wanted: []Wanted{want("photon-prod/solar", anyOf("tenant-cp-pool"))},
		ledger: map[string]string{lock100: held("172.21.208.100", "dynamo-prod/lunar"), solarRec: record("photon-prod/solar", at100)},
		found: solarAt + `:8:12: address 172.21.208.100 of photon-prod/solar is held by dynamo-prod/lunar [ledger/held]
  hint: one of the two came second and must get another address: see git log ` + lock100 + `, remove that one's record and run copyhold allocate
`},
	{name: "lock in another's quarantine and record disagree", wanted: []Wanted{want("photon-prod/solar", anyOf("tenant-cp-pool"))},
		ledger: map[string]string{lock100: released("172.21.208.100", "dynamo-prod/lunar", "2026-12-02"), solarRec: record("photon-prod/solar", at100)},
		found: solarAt + `:8:12: address 172.21.208.100 of photon-prod/solar is held by dynamo-prod/lunar [ledger/held]
  hint: one of the two came second and must get another address: see git log ` + lock100 + `, remove that one's record and run copyhold allocate
`},
	{name: "lock released under a record", wanted: []Wanted{want("photon-prod/solar", anyOf("tenant-cp-pool"))},
		ledger: map[string]string{lock100: released("172.21.208.100", "photon-prod/solar", "2026-11-01"), solarRec: record("photon-prod/solar", at100)},
		words:  "photon-prod/solar takes 172.21.208.100 of tenant-cp-pool again\n",
		after:  map[string]string{lock100: held("172.21.208.100", "photon-prod/solar")}},
	{name: "record without lock", wanted: []Wanted{want("photon-prod/solar", anyOf("tenant-cp-pool"))},
		ledger: map[string]string{solarRec: record("photon-prod/solar", at100)},
		words:  "photon-prod/solar has 172.21.208.100 of tenant-cp-pool on record: its lock is written\n",
		after:  map[string]string{lock100: held("172.21.208.100", "photon-prod/solar")}},
	{name: "record without lock, and without a claim", wanted: []Wanted{want("photon-prod/solar")},
		ledger: map[string]string{solarRec: record("photon-prod/solar", at100)},
		words:  "photon-prod/solar has 172.21.208.100 of tenant-cp-pool on record: its lock is written\n",
		after:  map[string]string{lock100: held("172.21.208.100", "photon-prod/solar")}},
	{name: "record without its pools", wanted: []Wanted{want("photon-prod/solar", anyOf("tenant-cp-pool"), server("photon-prod.production", ""))},
		ledger: map[string]string{solarRec: record("photon-prod/solar", "address: 172.21.208.100, serverAddress: 10.100.0.240")},
		words:  "photon-prod/solar has 172.21.208.100 of tenant-cp-pool on record: its lock is written\nphoton-prod/solar has 10.100.0.240 of photon-prod.production on record: its lock is written\n",
		after: map[string]string{lock100: held("172.21.208.100", "photon-prod/solar"), lock240: held("10.100.0.240", "photon-prod/solar"),
			solarRec: record("photon-prod/solar", at100+", serverAddress: 10.100.0.240, serverPool: photon-prod.production")}},
	{name: "lock without record", wanted: []Wanted{want("photon-prod/solar", anyOf("tenant-cp-pool"))},
		ledger: map[string]string{lock101: held("172.21.208.101", "photon-prod/solar")}, words: lost,
		after: map[string]string{solarRec: record("photon-prod/solar", at101)}},
	{name: "a held lock before one in quarantine", wanted: []Wanted{want("photon-prod/solar", anyOf("tenant-cp-pool"))},
		ledger: map[string]string{lock100: released("172.21.208.100", "photon-prod/solar", "2026-12-31"), lock101: held("172.21.208.101", "photon-prod/solar")}, words: lost,
		after: map[string]string{solarRec: record("photon-prod/solar", at101)}},
	{name: "back within quarantine", wanted: []Wanted{want("photon-prod/solar", anyOf("tenant-cp-pool"))},
		ledger: map[string]string{lock100: released("172.21.208.100", "photon-prod/solar", "2026-12-02"), solarRec: record("photon-prod/solar", at100+", released: 2026-11-02")},
		words:  "photon-prod/solar takes 172.21.208.100 of tenant-cp-pool again\n",
		after:  map[string]string{lock100: held("172.21.208.100", "photon-prod/solar"), solarRec: record("photon-prod/solar", at100)}},
	{name: "back within quarantine, but the address is reserved now", wanted: []Wanted{want("photon-prod/solar", anyOf("one"))},
		ledger: map[string]string{"ledger/addresses/one/192.0.2.2.yaml": released("192.0.2.2", "photon-prod/solar", "2026-12-02"), solarRec: record("photon-prod/solar", "address: 192.0.2.2, addressPool: one, released: 2026-11-02")},
		words:  "photon-prod/solar takes 192.0.2.1 of one\n",
		after:  map[string]string{lockOne: held("192.0.2.1", "photon-prod/solar"), solarRec: record("photon-prod/solar", "address: 192.0.2.1, addressPool: one")}},
	{name: "gone", ledger: map[string]string{lock100: held("172.21.208.100", "photon-prod/solar"), lock240: held("10.100.0.240", "photon-prod/solar"),
		solarRec: record("photon-prod/solar", at100+", serverAddress: 10.100.0.240, serverPool: photon-prod.production, class: a/b, defaults: {machineSize: small}")},
		words: "photon-prod/solar releases 172.21.208.100 of tenant-cp-pool until 2026-12-31: its request is gone\nphoton-prod/solar releases 10.100.0.240 of photon-prod.production until 2026-12-31: its request is gone\n",
		after: map[string]string{lock100: released("172.21.208.100", "photon-prod/solar", "2026-12-31"), lock240: released("10.100.0.240", "photon-prod/solar", "2026-12-31"),
			solarRec: record("photon-prod/solar", at100+", serverAddress: 10.100.0.240, serverPool: photon-prod.production, class: a/b, defaults: {machineSize: small}, released: 2026-12-01")}},
	{name: "gone, and its lock too", ledger: map[string]string{solarRec: record("photon-prod/solar", at100)},
		words: "photon-prod/solar releases 172.21.208.100 of tenant-cp-pool until 2026-12-31: its request is gone\n",
		after: map[string]string{lock100: released("172.21.208.100", "photon-prod/solar", "2026-12-31"), solarRec: record("photon-prod/solar", at100+", released: 2026-12-01")}},
	{name: "gone, and its lock was released before", ledger: map[string]string{lock100: released("172.21.208.100", "photon-prod/solar", "2026-11-01"), solarRec: record("photon-prod/solar", at100)},
		words: "photon-prod/solar releases 172.21.208.100 of tenant-cp-pool until 2026-12-31: its request is gone\n", // it had the address until today
		after: map[string]string{lock100: released("172.21.208.100", "photon-prod/solar", "2026-12-31"), solarRec: record("photon-prod/solar", at100+", released: 2026-12-01")}},
	{name: "gone, and another has its address on record", ledger: map[string]string{"ledger/clusters/quark-dev/tidal.yaml": record("quark-dev/tidal", at100), solarRec: record("photon-prod/solar", at100)},
		after: map[string]string{solarRec: record("photon-prod/solar", at100+", released: 2026-12-01")}},
	{name: "gone, and its lock is another's", ledger: map[string]string{lock100: held("172.21.208.100", "dynamo-prod/lunar"), lunarRec: record("dynamo-prod/lunar", at100), solarRec: record("photon-prod/solar", at100)},
		wanted: []Wanted{want("dynamo-prod/lunar", anyOf("tenant-cp-pool"))},
		after:  map[string]string{solarRec: record("photon-prod/solar", at100+", released: 2026-12-01")}},
	{name: "gone of a tenant that was not read", ledger: map[string]string{lock100: held("172.21.208.100", "quark-dev/tidal"), "ledger/clusters/quark-dev/tidal.yaml": record("quark-dev/tidal", at100)}},
	{name: "one address in two subnets", wanted: []Wanted{want("photon-prod/solar", anyOf("one"), server("photon-prod.production", "10.100.0.240"))},
		ledger: map[string]string{"ledger/addresses/dynamo-prod.production/10.100.0.240.yaml": held("10.100.0.240", "dynamo-prod/lunar")},
		words:  "photon-prod/solar takes 192.0.2.1 of one\nphoton-prod/solar takes 10.100.0.240 of photon-prod.production\n",
		after: map[string]string{lock240: held("10.100.0.240", "photon-prod/solar"), lockOne: held("192.0.2.1", "photon-prod/solar"),
			solarRec: record("photon-prod/solar", "address: 192.0.2.1, addressPool: one, serverAddress: 10.100.0.240, serverPool: photon-prod.production")}},
}

// lost is what is said when a lock has no record.
const lost = "photon-prod/solar had addresses and no record: its defaults and rollout hashes are those of today; if a record was lost, restore it from Git instead\n"

func TestPlan(t *testing.T) {
	for _, c := range planCases {
		t.Run(c.name, func(t *testing.T) {
			l := load(t, c.ledger)
			before := asModel(l)
			in := Planning{Wanted: c.wanted, Pools: small(t), Namespaces: []string{"photon-prod", "dynamo-prod"}, Today: "2026-12-01", Until: "2026-12-31", Move: c.move}
			plan, found := l.Plan(in)
			if d := cmp.Diff(c.found, found.String()); d != "" {
				t.Errorf("findings (-want +got):\n%s", d)
			}
			words := ""
			for _, w := range plan.Words {
				words += w + "\n"
			}
			if d := cmp.Diff(c.words, words); d != "" {
				t.Errorf("words (-want +got):\n%s", d)
			}
			if !before.equal(asModel(l)) {
				t.Errorf("Plan changes the ledger it is asked of")
			}
			// What is written, read as the files that were expected would be: how YAML is laid out is FormatLock's and FormatRecord's.
			expected := maps.Clone(c.ledger)
			if expected == nil {
				expected = map[string]string{}
			}
			maps.Copy(expected, c.after)
			want, got := asModel(load(t, expected)), asModel(apply(t, l, plan.Writes))
			if d := cmp.Diff(want, got, cmp.AllowUnexported(model{}, spot{}, hold{}, entry{})); d != "" {
				t.Errorf("ledger (-want +got):\n%s", d)
			}
			if len(plan.Writes) != len(c.after) {
				t.Errorf("Plan writes %d files, want %d", len(plan.Writes), len(c.after))
			}
		})
	}
}

// Locks are written before the records that rest on them, each sort by name.
func TestPlanWritesLocksFirst(t *testing.T) {
	l := load(t, map[string]string{lock101: held("172.21.208.101", "quark-dev/tidal"), "ledger/clusters/quark-dev/tidal.yaml": record("quark-dev/tidal", at101)})
	plan, found := l.Plan(Planning{
		Wanted: []Wanted{want("photon-prod/solar", pinned("tenant-cp-pool", "172.21.208.100"), server("photon-prod.production", "10.100.0.240")), want("dynamo-prod/lunar", anyOf("one"))},
		Pools:  small(t), Namespaces: []string{"photon-prod", "dynamo-prod", "quark-dev"}, Today: "2026-12-01", Until: "2026-12-31",
	})
	var got []string
	for _, w := range plan.Writes {
		got = append(got, w.File)
	}
	want := []string{lockOne, lock240, lock100, lock101, "ledger/clusters/quark-dev/tidal.yaml", lunarRec, solarRec}
	if d := cmp.Diff(want, got); d != "" || len(found) > 0 {
		t.Errorf("Plan's files (-want +got):\n%s%s", d, found)
	}
}

func TestPlanDefaults(t *testing.T) {
	for _, c := range []struct{ name, recorded, class, today, want, words string }{
		{"none yet", "", "a/b", `{"size":"small"}`, `{"size":"small"}`, ""},
		{"a record without", at100, "a/b", `{"size":"small"}`, `{"size":"small"}`, ""},
		{"as before", "class: a/b, defaults: {size: small}", "a/b", `{"size":"small"}`, `{"size":"small"}`, ""},
		{"changed in the class", "class: a/b, defaults: {size: small}", "a/b", `{"size":"large"}`, `{"size":"small"}`, ""},
		{"changed its type", "class: a/b, defaults: {size: small}", "a/b", `{"size":{"cpu":1}}`, `{"size":"small"}`, ""},
		{"new in the class", "class: a/b, defaults: {size: small}", "a/b", `{"retries":3,"size":"large"}`, `{"retries":3,"size":"small"}`, "photon-prod/solar records retries: 3, new in class a/b\n"},
		{"recorded as null", "class: a/b, defaults: {size: null}", "a/b", `{"size":"large"}`, `{"size":null}`, ""},
		{"gone from the class", "class: a/b, defaults: {retries: 3, size: small}", "a/b", `{"size":"large"}`, `{"size":"small"}`, "photon-prod/solar drops retries, which class a/b no longer has\n"},
		{"all gone", "class: a/b, defaults: {retries: 3}", "a/b", `{}`, `{}`, "photon-prod/solar drops retries, which class a/b no longer has\n"},
		{"another class", "class: a/b, defaults: {retries: 3, size: small}", "a/c", `{"size":"large"}`, `{"size":"large"}`, "photon-prod/solar moves from class a/b to a/c: its defaults are recorded anew\n"},
		{"no class", "class: a/b, defaults: {retries: 3}", "", `{}`, `{"retries":3}`, ""},
		{"back again", "class: a/b, defaults: {size: small}, released: 2026-11-01", "a/b", `{"size":"large"}`, `{"size":"large"}`, ""},
		{"nested", "class: a/b, defaults: {network: {type: LoadBalancer}}", "a/b", `{"network":{"type":"NodePort","mtu":1400}}`, `{"network":{"type":"LoadBalancer"}}`, ""},
		{"number of another spelling", "class: a/b, defaults: {retries: 3.0}", "a/b", `{"retries":3}`, `{"retries":3}`, ""},
	} {
		f := map[string]string{}
		if c.recorded != "" {
			f[solarRec] = record("photon-prod/solar", c.recorded)
		}
		if strings.Contains(c.recorded, "address") {
			f[lock100] = held("172.21.208.100", "photon-prod/solar")
		}
		l := load(t, f)
		docs := map[string]any{}
		if err := jsonInto(c.today, &docs); err != nil {
			t.Fatal(err)
		}
		w := want("photon-prod/solar")
		w.Class, w.Defaults = c.class, docs
		plan, found := l.Plan(Planning{Wanted: []Wanted{w}, Namespaces: []string{"photon-prod"}, Today: "2026-12-01", Until: "2026-12-31"})
		got := asModel(apply(t, l, plan.Writes)).records["photon-prod/solar"]
		if words := strings.Join(append(plan.Words, ""), "\n"); got.defaults != c.want || words != c.words || len(found) > 0 {
			t.Errorf("%s: Plan records %s and says %q%s, want %s and %q", c.name, got.defaults, words, found, c.want, c.words)
		}
		if c.class != "" && got.class != c.class {
			t.Errorf("%s: Plan records class %q, want %q", c.name, got.class, c.class)
		}
	}
}

// Defaults are a class's own text. What could not be read back must not be written: it would make the ledger unreadable.
func TestPlanWritesWhatCanBeRead(t *testing.T) {
	for _, c := range []map[string]any{
		{"text": "<<"}, {"map": map[string]any{"<<": "a"}}, {"text": "\x1b[31mred"}, {"text": "\x7f"}, {"text": "\u0085"}, {"map": map[string]any{"\u0085": "Null"}}, {"text": "\ufeffa"}, {"text": "\uffff"},
		{"map": map[string]any{"": "a"}}, {"text": "a\x00b"},
	} {
		w := want("photon-prod/solar")
		w.Class, w.Defaults = "kmetal-capi-providers/kubevirt-kubeadm", c
		plan, found := load(t, nil).Plan(Planning{Wanted: []Wanted{w}, Namespaces: []string{"photon-prod"}, Today: "2026-12-01", Until: "2026-12-31"})
		if found.Failed() {
			if len(plan.Writes) > 0 {
				t.Errorf("Plan with default %s = %s, and writes %s", asJSON(c), found, plan.Writes[0].Data)
			}
			continue
		}
		r, found := ParseRecord(plan.Writes[0].File, plan.Writes[0].Data)
		if found.Failed() || asJSON(r.Defaults) != asJSON(c) {
			t.Errorf("Plan with default %s writes a record that is read as %v, %s:\n%s", asJSON(c), r, found, plan.Writes[0].Data)
		}
	}
}

func TestCheck(t *testing.T) {
	both := []Wanted{want("photon-prod/solar", anyOf("tenant-cp-pool")), want("dynamo-prod/lunar", anyOf("tenant-cp-pool"))}
	for _, c := range []struct {
		name   string
		ledger map[string]string
		wanted []Wanted
		want   string
	}{
		{"nothing", nil, nil, ""},
		{"all is well", map[string]string{
			lock100: held("172.21.208.100", "photon-prod/solar"), solarRec: record("photon-prod/solar", at100),
			lock101: released("172.21.208.101", "quark-dev/tidal", "2026-12-31"), "ledger/clusters/quark-dev/tidal.yaml": record("quark-dev/tidal", at101+", released: 2026-12-01"),
		}, both, ""},
		{"gone", map[string]string{lock100: held("172.21.208.100", "photon-prod/solar"), solarRec: record("photon-prod/solar", at100)}, nil,
			solarRec + `:1:1: the record speaks of photon-prod/solar, which nobody asks for [ledger/gone]
  hint: copyhold allocate releases its addresses; or restore its request
`},
		{"record without lock", map[string]string{solarRec: record("photon-prod/solar", at100)}, both,
			solarRec + `:4:17: address 172.21.208.100 of photon-prod/solar has no lock: nothing keeps it from being given out again [ledger/no-lock]
  hint: run copyhold allocate: it writes ` + lock100 + `
`},
		{"record without its pool", map[string]string{solarRec: record("photon-prod/solar", "address: 172.21.208.100, serverAddress: 10.100.0.240")}, both,
			solarRec + `:4:17: address 172.21.208.100 of photon-prod/solar is on record without its pool, so it has no lock [ledger/no-lock]
  hint: run copyhold allocate: it writes both
` + solarRec + `:4:48: serverAddress 10.100.0.240 of photon-prod/solar is on record without its pool, so it has no lock [ledger/no-lock]
  hint: run copyhold allocate: it writes both
`},
		{"lock and record disagree", map[string]string{lock100: held("172.21.208.100", "dynamo-prod/lunar"), solarRec: record("photon-prod/solar", at100)}, both,
			lock100 + `:3:43: 172.21.208.100 is held by dynamo-prod/lunar, whose record does not have it [ledger/no-record]
  hint: run copyhold allocate: it completes a run that was cut off; if the cluster is gone, copyhold release dynamo-prod/lunar
` + solarRec + `:4:17: the record of photon-prod/solar has 172.21.208.100, but its lock names dynamo-prod/lunar [ledger/disagree]
  hint: see git log ` + lock100 + `: one of the two was edited by hand
`},
		{"lock released under a record", map[string]string{lock100: released("172.21.208.100", "photon-prod/solar", "2026-12-31"), solarRec: record("photon-prod/solar", at100)}, both,
			solarRec + `:4:17: the record of photon-prod/solar has 172.21.208.100, but its lock is released [ledger/disagree]
  hint: run copyhold allocate, which takes it again if it can
`},
		{"lock without record", map[string]string{lock100: held("172.21.208.100", "photon-prod/solar")}, both,
			lock100 + `:3:43: 172.21.208.100 is held by photon-prod/solar, whose record does not have it [ledger/no-record]
  hint: run copyhold allocate: it completes a run that was cut off; if the cluster is gone, copyhold release photon-prod/solar
`},
		{"lock held under a released record", map[string]string{lock100: held("172.21.208.100", "photon-prod/solar"), solarRec: record("photon-prod/solar", at100+", released: 2026-12-01")}, nil,
			lock100 + `:3:43: 172.21.208.100 is held by photon-prod/solar, whose record does not have it [ledger/no-record]
  hint: run copyhold allocate: it completes a run that was cut off; if the cluster is gone, copyhold release photon-prod/solar
`},
		{"hand-made duplicate", map[string]string{lock100: held("172.21.208.100", "photon-prod/solar"), solarRec: record("photon-prod/solar", at100), lunarRec: record("dynamo-prod/lunar", at100)}, both,
			lunarRec + `:4:7: address 172.21.208.100 is on record for more than one cluster: dynamo-prod/lunar, photon-prod/solar [ledger/duplicate]
  hint: the one that came later must give it up: see git log ledger/addresses
` + lunarRec + `:4:17: the record of dynamo-prod/lunar has 172.21.208.100, but its lock names photon-prod/solar [ledger/disagree]
  hint: see git log ` + lock100 + `: one of the two was edited by hand
` + solarRec + `:4:7: address 172.21.208.100 is on record for more than one cluster: dynamo-prod/lunar, photon-prod/solar [ledger/duplicate]
  hint: the one that came later must give it up: see git log ledger/addresses
`},
		{"one address in two pools", map[string]string{
			lock100: held("172.21.208.100", "photon-prod/solar"), solarRec: record("photon-prod/solar", at100),
			"ledger/addresses/one/172.21.208.100.yaml": held("172.21.208.100", "photon-prod/solar"),
		}, both,
			`ledger/addresses/one/172.21.208.100.yaml:3:17: 172.21.208.100 is held in "one" and in "tenant-cp-pool" [ledger/duplicate]
  hint: an address belongs to one pool: release one of the two
ledger/addresses/one/172.21.208.100.yaml:3:43: 172.21.208.100 is held by photon-prod/solar, whose record does not have it [ledger/no-record]
  hint: run copyhold allocate: it completes a run that was cut off; if the cluster is gone, copyhold release photon-prod/solar
` + lock100 + `:3:17: 172.21.208.100 is held in "tenant-cp-pool" and in "one" [ledger/duplicate]
  hint: an address belongs to one pool: release one of the two
`},
		{"one address in two subnets is two", map[string]string{
			lock240: held("10.100.0.240", "photon-prod/solar"), solarRec: record("photon-prod/solar", "serverAddress: 10.100.0.240, serverPool: photon-prod.production"),
			"ledger/addresses/dynamo-prod.production/10.100.0.240.yaml": held("10.100.0.240", "dynamo-prod/lunar"), lunarRec: record("dynamo-prod/lunar", "serverAddress: 10.100.0.240, serverPool: dynamo-prod.production"),
		}, both,
			lunarRec + `:4:23: warning: serverAddress 10.100.0.240 of dynamo-prod/lunar is from "dynamo-prod.production", which is no longer offered [pool/unknown]
`},
		{"outside and reserved", map[string]string{
			lock101: held("172.21.208.101", "quark-dev/tidal"), "ledger/clusters/quark-dev/tidal.yaml": record("quark-dev/tidal", at101),
			"ledger/addresses/tenant-cp-pool/172.21.208.103.yaml": held("172.21.208.103", "photon-prod/solar"), solarRec: record("photon-prod/solar", "address: 172.21.208.103, addressPool: tenant-cp-pool"),
			"ledger/addresses/one/192.0.2.7.yaml": held("192.0.2.7", "dynamo-prod/lunar"), lunarRec: record("dynamo-prod/lunar", "address: 192.0.2.7, addressPool: one"),
		}, append(both, want("quark-dev/tidal")),
			lunarRec + `:4:17: warning: address 192.0.2.7 of dynamo-prod/lunar is not in address pool "one": 192.0.2.1 [pool/outside]
` + solarRec + `:4:17: warning: address 172.21.208.103 of photon-prod/solar is reserved in address pool "tenant-cp-pool": 172.21.208.103 [pool/reserved]
`},
	} {
		if d := cmp.Diff(c.want, load(t, c.ledger).Check(c.wanted, small(t)).String()); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

// A cluster that comes back has its accepted hashes, whenever that is, and nothing else of what it had; a new one has none.
func TestHashesOutliveARelease(t *testing.T) {
	const hashes = `rollouts: {md-0: "v1:0123456789abcdef"}`
	for _, x := range []struct{ name, record, want string }{
		{"released", `class: a/b, defaults: {size: small}, reason: sale, released: 2026-12-01, ` + hashes, "v1:0123456789abcdef"},
		{"released, nothing accepted", `class: a/b, released: 2026-12-01`, ""},
		{"running", `class: a/b, reason: sale, ` + hashes, "v1:0123456789abcdef"},
		{"new", "", ""},
	} {
		f := map[string]string{}
		if x.record != "" {
			f["ledger/clusters/photon-prod/solar.yaml"] = record("photon-prod/solar", x.record)
		}
		plan, found := load(t, f).Plan(Planning{
			Wanted: []Wanted{{Namespace: "photon-prod", Name: "solar", Class: "a/b", Defaults: map[string]any{"size": "large"}}},
			Today:  "2027-06-01", Until: "2027-07-01", Namespaces: []string{"photon-prod"},
		})
		if found.Failed() || len(plan.Records) != 1 {
			t.Fatalf("%s: %s, %d records", x.name, found, len(plan.Records))
		}
		r := plan.Records[0]
		if r.Rollouts["md-0"] != x.want || r.Defaults["size"] != "large" || r.Released != "" || x.name != "running" && r.Reason != "" {
			t.Errorf("%s: %+v", x.name, r.RecordSpec)
		}
		if said := strings.Contains(strings.Join(plan.Words, "\n"), "comes back after 2026-12-01"); said != (x.name == "released") {
			t.Errorf("%s: %q", x.name, plan.Words)
		}
	}
}
