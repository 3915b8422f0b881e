package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"copyhold.dev/copyhold/render/diag"
)

func jsonInto(text string, into any) error { return json.Unmarshal([]byte(text), into) }

// A ledger is reviewed line by line and merged by Git, so its bytes are promised.
func TestFormatIsPromised(t *testing.T) {
	for _, c := range []struct {
		lock Lock
		want string
	}{
		{Lock{Pool: "tenant-cp-pool", Address: netip.MustParseAddr("172.21.208.100"), Holder: "photon-prod/solar"}, `apiVersion: copyhold.dev/v1alpha1
kind: AddressLock
spec:
  address: 172.21.208.100
  holder: photon-prod/solar
  state: held
`},
		{Lock{Pool: "v6", Address: netip.MustParseAddr("2001:0db8::00ff"), Holder: "photon-prod/solar", Until: "2026-12-31"}, `apiVersion: copyhold.dev/v1alpha1
kind: AddressLock
spec:
  address: 2001:db8::ff
  holder: photon-prod/solar
  state: released
  until: "2026-12-31"
`},
	} {
		if got, err := FormatLock(&c.lock); err != nil || string(got) != c.want {
			t.Errorf("FormatLock(%v) = %v (-want +got):\n%s", c.lock, err, cmp.Diff(c.want, string(got)))
		}
	}
	r := Record{Namespace: "photon-prod", Name: "solar", RecordSpec: RecordSpec{
		Address: "172.21.208.100", AddressPool: "tenant-cp-pool", ServerAddress: "10.100.0.240", ServerPool: "photon-prod.production",
		Class: "kmetal-capi-providers/kubevirt-kubeadm", Released: "2026-12-01",
		Defaults: map[string]any{"machineSize": "small", "a.version": "1.30", "b": true, "c": nil, "list[]": []any{3, "x"}, "m": map[string]any{"z": 1, "y": "no"}},
	}}
	want := `apiVersion: copyhold.dev/v1alpha1
kind: ClusterRecord
metadata:
  name: solar
  namespace: photon-prod
spec:
  address: 172.21.208.100
  addressPool: tenant-cp-pool
  class: kmetal-capi-providers/kubevirt-kubeadm
  defaults:
    a.version: "1.30"
    b: true
    c: null
    list[]:
    - 3
    - x
    m:
      "y": "no"
      z: 1
    machineSize: small
  released: "2026-12-01"
  serverAddress: 10.100.0.240
  serverPool: photon-prod.production
`
	if got, err := FormatRecord(&r); err != nil || string(got) != want {
		t.Errorf("FormatRecord = %v (-want +got):\n%s", err, cmp.Diff(want, string(got)))
	}
}

// The same record gives the same bytes, however Go orders its maps and whatever order a YAML library thinks that keys have: one of
// them puts a10 before a1b, a1b before a2 and a2 before a10.
func TestFormatRecordIsStable(t *testing.T) {
	keys := []string{"a1", "a01", "a2", "a10", "a1b", "a.1", "a-1", "a_1", "A1", "v1", "v1beta1", "v01", "1", "01", "0x1", "b[]", "b{}"}
	build := func() map[string]any {
		m := map[string]any{}
		for _, k := range keys {
			m[k] = 1
		}
		return m
	}
	want := ""
	for range 100 {
		m := build()
		m["nested"] = build()
		got, err := FormatRecord(&Record{Namespace: "photon-prod", Name: "solar", RecordSpec: RecordSpec{Defaults: m}})
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want = string(got)
		}
		if string(got) != want {
			t.Fatalf("FormatRecord gives two texts for one record (-first +later):\n%s", cmp.Diff(want, string(got)))
		}
	}
}

// awkward are texts that YAML, or one of its versions, would take for something else.
var awkward = []string{
	"", " ", "a b", "small", "1.30", "1", "-1", "+1", "0x1f", "0o17", "017", "0b1", "1_000", "1e3", ".5", "1.", ".inf", "-.INF", ".nan", "12:30:45", "190:20:30",
	"yes", "No", "on", "OFF", "y", "n", "true", "False", "null", "Null", "~", "2024-01-01", "2001-12-14t21:59:43.10-05:00", "=", "< <", "-", "- a", "?", "? a", ":", "a: b", "a:", ":a",
	"#", "a #b", "!tag", "!!int 3", "&a", "*a", "@a", "`a", "%a", "{a}", "[a]", "{", "]", ",", "|", ">", "'", "\"", "\\", "\\n", "a\nb", "a\n", "\na", "  a", "a  ", "\ta", "a\tb", "a\r\nb", "\r",
	"---", "--- a", "...", "<<<<<<< HEAD", "ü", "日本", "🙂", "\u00a0", "é\u0301", strings.Repeat("long ", 60), strings.Repeat("x", 300), "{{ .Values.a }}", "${HOME}",
}

// What is written is read back as it was, and written again with the same bytes, whatever a class has for defaults.
func TestRecordsAreReadBack(t *testing.T) {
	const seed = 23
	r := rand.New(rand.NewPCG(seed, seed))
	word := func() string { return awkward[r.IntN(len(awkward))] }
	var value func(depth int) any
	value = func(depth int) any {
		switch n := r.IntN(12); {
		case n < 5:
			return word()
		case n == 5:
			return float64(r.IntN(2000) - 1000)
		case n == 6:
			return []any{1.5, -0.25, 1e21, 1e-9, float64(1 << 53), 123456789.125}[r.IntN(6)]
		case n == 7:
			return r.IntN(2) == 0
		case n == 8 || depth == 0:
			return nil
		case n == 9:
			list := []any{}
			for range r.IntN(4) {
				list = append(list, value(depth-1))
			}
			return list
		}
		m := map[string]any{}
		for range r.IntN(4) {
			if key := word(); key != "" {
				m[key] = value(depth - 1)
			}
		}
		return m
	}
	for i := range 1500 {
		want := Record{Namespace: "photon-prod", Name: "solar", RecordSpec: RecordSpec{Defaults: map[string]any{}}}
		if i < len(awkward) {
			want.Defaults["text"] = awkward[i]
			if awkward[i] != "" {
				want.Defaults[awkward[i]] = "key"
			}
		}
		for range r.IntN(6) {
			if key := word(); key != "" {
				want.Defaults[key] = value(4)
			}
		}
		if r.IntN(2) == 0 {
			want.Address, want.AddressPool, want.Class, want.Released = "2001:db8::ff", "v6", "kmetal/kubevirt-kubeadm", "2026-12-01"
		}
		data, err := FormatRecord(&want)
		if err != nil {
			t.Fatal(err)
		}
		got, found := ParseRecord(rc, data)
		if len(found) > 0 {
			t.Errorf("ParseRecord(FormatRecord(%q)) = %s (seed %d)\n%s", want.Defaults, found, seed, data)
			continue
		}
		if a, b := asJSON(want.Defaults), asJSON(got.Defaults); a != b {
			t.Errorf("defaults (-written +read, seed %d):\n%s\n%s", seed, cmp.Diff(a, b), data)
		}
		got.Defaults, want.Defaults = nil, nil
		if !reflect.DeepEqual(want.RecordSpec, got.RecordSpec) {
			t.Errorf("record (-written +read):\n%s", cmp.Diff(want.RecordSpec, got.RecordSpec))
		}
		got, _ = ParseRecord(rc, data)
		if again, err := FormatRecord(got); err != nil || string(again) != string(data) {
			t.Errorf("FormatRecord(ParseRecord) = %v (-first +again, seed %d):\n%s", err, seed, cmp.Diff(string(data), string(again)))
		}
		if t.Failed() && i > len(awkward) {
			return
		}
	}
}

func TestLocksAreReadBack(t *testing.T) {
	for _, pool := range []string{"tenant-cp-pool", "photon-prod.production", "0", "null"} {
		for _, a := range []string{"0.0.0.0", "172.21.208.100", "255.255.255.255", "::", "::1", "2001:db8::", "2001:db8::ff", "2001:db8:0:0:1::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::172.21.208.100"} {
			for _, until := range []Date{"", "2026-12-31"} {
				for _, holder := range []string{"photon-prod/solar", "1/2", "null/~"} {
					want := Lock{Pool: pool, Address: netip.MustParseAddr(a), Holder: holder, Until: until}
					data, err := FormatLock(&want)
					if err != nil {
						t.Fatal(err)
					}
					file := (&Ledger{dir: "ledger"}).LockFile(pool, want.Address)
					got, found := ParseLock(file, data)
					if len(found) > 0 {
						t.Errorf("ParseLock(%s) = %s\n%s", file, found, data)
						continue
					}
					if again, err := FormatLock(got); err != nil || string(again) != string(data) {
						t.Errorf("FormatLock(ParseLock(%s)) = %v (-first +again):\n%s", file, err, cmp.Diff(string(data), string(again)))
					}
					if got.Pool != want.Pool || got.Address != want.Address || got.Holder != want.Holder || got.Until != want.Until {
						t.Errorf("ParseLock(%s) = %+v, want %+v", file, got, want)
					}
				}
			}
		}
	}
}

// breaks are all that YAML takes for the end of a line.
var breaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// within checks that findings point into their file.
func within(t *testing.T, file string, data []byte, found diag.List) {
	t.Helper()
	lines := strings.Split(breaks.Replace(string(data)), "\n")
	for _, f := range found {
		if f.Pos.File != file || f.Pos.Line < 0 || f.Pos.Line > len(lines) || f.Pos.Col < 0 {
			t.Errorf("%s: the place is not in the file, which has %d lines", f, len(lines))
			continue
		}
		if f.Pos.Line > 0 && f.Pos.Col > len(lines[f.Pos.Line-1])+1 {
			t.Errorf("%s: the line has %d bytes:\n%s", f, len(lines[f.Pos.Line-1]), lines[f.Pos.Line-1])
		}
		if f.Name == "" || f.Message == "" || strings.ContainsAny(f.Message+f.Hint, "\x00\x1b") {
			t.Errorf("%q: want a name and a message that can be printed", f)
		}
	}
}

func FuzzParseLock(f *testing.F) {
	f.Add([]byte(held("172.21.208.100", "photon-prod/solar")))
	f.Add([]byte(released("172.21.208.100", "photon-prod/solar", "2026-12-31")))
	f.Add([]byte(lockHead + "<<<<<<< HEAD\nspec: {}\n=======\n>>>>>>> theirs\n"))
	f.Add([]byte("a: &a [*a]\n---\n\t- !x 1\n"))
	f.Add([]byte("\xef\xbb\xbfspec: \xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, found := ParseLock(v4, data)
		within(t, v4, data, found)
		if (l == nil) != found.Failed() {
			t.Fatalf("ParseLock = %v, %s", l, found)
		}
		if l == nil {
			return
		}
		text, err := FormatLock(l)
		if err != nil {
			t.Fatal(err)
		}
		again, found := ParseLock(v4, text)
		if found.Failed() || again.Address != l.Address || again.Holder != l.Holder || again.Until != l.Until {
			t.Fatalf("ParseLock(FormatLock(%+v)) = %+v, %s\n%s", l, again, found, text)
		}
		if len(found) > 0 || l.Pool != "tenant-cp-pool" {
			t.Fatalf("ParseLock(FormatLock(%+v)) = %s", l, found)
		}
	})
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(record("photon-prod/solar", at100+", class: a/b, defaults: {machineSize: small, n: 1.0, l: [a, {b: c}]}")))
	f.Add([]byte(record("photon-prod/solar", `serverAddress: "2001:db8::1", serverPool: photon-prod.production, released: 2026-12-01`)))
	f.Add([]byte(recordHead + "metadata:\n  namespace: photon-prod\n  name: solar\nspec:\n  defaults:\n    text: |\n      a\n\n      b\n    ~: 1\n"))
	for _, s := range awkward {
		f.Add([]byte(record("photon-prod/solar", fmt.Sprintf("defaults: {text: %q}", s))))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, found := ParseRecord(rc, data)
		within(t, rc, data, found)
		if found.Failed() || bytes.Contains(data, []byte("<<")) || bytes.Contains(data, []byte("\u0085")) || bytes.Contains(data, []byte(`\`)) {
			return // a default that YAML cannot hold plainly is not written in the first place, see TestPlanWritesWhatCanBeRead
		}
		if r.Holder() != "photon-prod/solar" {
			t.Fatalf("ParseRecord = a record of %s, which is not its file", r.Holder())
		}
		text, err := FormatRecord(r)
		if err != nil {
			t.Fatal(err)
		}
		again, found := ParseRecord(rc, text)
		if len(found) > 0 || !same(r.RecordSpec, again.RecordSpec) {
			t.Fatalf("ParseRecord(FormatRecord(%+v)) = %+v, %s\n%s", r, again, found, text)
		}
	})
}
