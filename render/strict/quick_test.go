package strict

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// compare reports whether quick accepts a text, and fails when it then reads anything else than the parser does.
func compare(t *testing.T, data []byte) bool {
	t.Helper()
	root, ok := quick(string(data))
	if !ok {
		return false
	}
	docs, found := parse("f.yaml", data)
	if len(found) > 0 || len(docs) != 1 {
		t.Fatalf("quick reads what the parser finds to be %d documents, %s:\n%s", len(docs), found, data)
	}
	if !reflect.DeepEqual(*docs[0].root, *root) {
		t.Fatalf("quick reads %q otherwise (-parser +quick):\n%s", data, cmp.Diff(*docs[0].root, *root, cmp.AllowUnexported(node{})))
	}
	return true
}

// The files that a repository has are quick's: if one of these is not, the speed is gone.
func TestQuickReadsOurFiles(t *testing.T) {
	for _, text := range []string{`apiVersion: copyhold.dev/v1alpha1
kind: AddressLock
spec:
  address: 2001:db8::ff
  holder: photon-prod/solar
  state: released
  until: "2026-12-31"
`, `apiVersion: copyhold.dev/v1alpha1
kind: ClusterRecord
metadata:
  name: solar
  namespace: photon-prod
spec:
  address: 172.21.208.100
  defaults:
    a.version: "1.30"
    b: true
    list[]:
    - 3
    - x
    m:
      z: 1
    machineSize: small
    n: {}
    users: []
  released: "2026-12-01"
`, `# what photon-prod runs
apiVersion: copyhold.dev/v1alpha1
kind: ClusterRequest
metadata: {name: solar}
spec:
  tier: kubeadm
  version: v1.34.1   # the newest
  subnet: production

  publicNames:
    - solar.example.org
    - '*.solar.example.org'
  workers:
    md-0: {replicas: 2, size: small, labels: {a: b}}
`} {
		if !compare(t, []byte(text)) {
			t.Errorf("quick does not read\n%s", text)
		}
	}
}

// What quick must leave to the parser, since it is wrong, or would have to be read with more care.
func TestQuickLeaves(t *testing.T) {
	for _, text := range []string{
		"", "\n# nothing\n", "a", "- a\n", "{a: b}\n", "  a: b\n", "---\na: b\n", "a: b\n---\nc: d\n", "a: b\n...\n", "%YAML 1.2\n---\na: b\n", "\xef\xbb\xbfa: b\n",
		"a: b\na: c\n", "a: {b: c, b: d}\n", "a:\n", "a:\nb: c\n", "a: ~\n", "a: null\n" + "null: b\n", "~: a\n", "a: &b c\n", "a: *b\n", "a: !!str b\n", "<<: {a: b}\n", "a: b: c\n", "a: {b: c: d}\n",
		"a: 0x1f\n", "a: 017\n", "a: 1_000\n", "a: .inf\n", "a: 1.\n", "a: b\n c\n", "a: b\n  c: d\n", "a:\n  b: c\n d: e\n", "a:\n    b: c\n  d: e\n", "a: |\n  b\n", "a: >\n  b\n", "a: \"b\\n\"\n", "a: 'b''c'\n", "a: \"b\n  c\"\n",
		"a: 'b' c\n", "a: b#c\n", "a: b c\n", "a:\tb\n", "\ta: b\n", "a: b\r\n", "a: {b: c\n}\n", "a: [b,\n c]\n", "a: {b}\n", "a: {b:}\n", "a: {b: c,}\n", "a: [b,,c]\n", "a: [b: c]\n", "a: {\"b\": c}\n", "a: {b: c} d\n", "a: [b]c\n", "\"a\": b\n",
		"a:\n- b: c\n", "a:\n- - b\n", "a:\n-\n", "a:\n- b\n  c\n", "a:\n  - b\n  c: d\n", "a:\n- b\n - c\n", "a: - b\n", "a: -\n", "a: ---\n", "? a\n: b\n", "a : b\n", "a:b\n", "a: @b\n", "a: `b\n", "a: ü\n", "a: \u0085b\n", "a: \x00\n",
		strings.Repeat("a", 200) + ": b\n", "a: " + strings.Repeat("{a: ", 40) + "b" + strings.Repeat("}", 40) + "\n", "a: b\n" + strings.Repeat("#\n", MaxSize/2),
	} {
		if compare(t, []byte(text)) {
			t.Errorf("quick reads %q", text)
		}
	}
}

// writer makes random text of what quick reads, and of what lies beside it.
type writer struct {
	*rand.Rand
	odd int // one in how many pieces is odd
}

func (w writer) of(list ...string) string { return list[w.IntN(len(list))] }

func (w writer) word() string {
	if w.IntN(w.odd) == 0 {
		return w.of("", "~", "null", "yes", "a b", "a: b", "a:b", ":a", "#a", "a#", "-", "- a", "--- a", "...", "-a", "0x1", "017", "1_0", ".inf", "1e9", "&a", "*a", "!a", "<<", "=", "?", "? a", "a,b", "[a", "a]", "{", "}", "'a", "\"a", "|", ">", "%a", "@a", "`a", "ü", "a\tb", "12:30", "1:30:00", "a:", "2001:db8::1", "::1", "+1", "-1", "1.", ".5", "-.5", "2024-01-01", "2024-01-01T10:00:00Z", "0", "00", "-0", "9999999999999999999999", "\"a\\n\"", "'a''b'", "\"'\"")
	}
	return w.of("a", "small", "v1.34.1", "true", "False", "1", "42", "1.5", "10.100.0.0/24", "172.21.208.100", "photon-prod/solar", "\"1.30\"", "'no'", "\"\"", "''", "\"a: b # c\"", "a.b", "_x", "/etc", "x=y", "a@b", "2024-01-01", "-5", "n", "y", "on", "\"2026-12-01\"")
}

func (w writer) key() string {
	if w.IntN(w.odd) == 0 {
		return w.of("null", "~", "<<", "\"y\"", "1", "true", "a b", "a#", "a:b", "?", "- a", "", "ü", "---", "...", "2024-01-01", "-1", "1.5", ".")
	}
	return w.of("a", "b", "c", "d", "e", "f", "md-0", "machineSize", "a.b.c", "list[]", "map{}", "x_y", "a/b", "k1", "k2", "k3", "$x", "9")
}

func (w writer) sep() string {
	if w.IntN(w.odd) == 0 {
		return w.of("", " ", "\n", "\t", " #", "# c", " # c", "\r\n", "\n\n", "\n#\n", "\n  # c", ": ", ",")
	}
	return ""
}

func (w writer) flow(depth int) string {
	space := w.of("", "", " ", "  ")
	var parts []string
	n := w.IntN(4)
	list := w.IntN(2) == 0
	for range n {
		value := w.word()
		if depth > 0 && w.IntN(4) == 0 {
			value = w.flow(depth - 1)
		}
		if !list {
			value = w.key() + ":" + w.of(" ", " ", "  ") + value
		}
		parts = append(parts, value+w.sep())
	}
	text := space + strings.Join(parts, w.of(", ", ",", " , ")) + space
	if list {
		return "[" + text + "]"
	}
	return "{" + text + "}"
}

func (w writer) block(b *strings.Builder, indent, depth int) {
	for range 1 + w.IntN(5) {
		if w.IntN(8) == 0 {
			b.WriteString(w.of("\n", "# c\n", "   \n", "      # c: d\n", "  \n\n"))
		}
		in := indent
		if w.IntN(w.odd*2) == 0 {
			in += w.IntN(5) - 2
		}
		b.WriteString(strings.Repeat(" ", max(in, 0)) + w.key() + ":")
		switch n := w.IntN(10); {
		case n < 5 || depth == 0:
			b.WriteString(w.of(" ", " ", "   ") + w.word())
		case n == 5:
			b.WriteString(" " + w.flow(2))
		case n == 6:
			b.WriteString(w.of("", " ", " # c"))
			more := w.IntN(3)
			for range 1 + w.IntN(3) {
				value := w.word()
				if w.IntN(4) == 0 {
					value = w.flow(1)
				}
				b.WriteString("\n" + strings.Repeat(" ", indent+more) + "-" + w.of(" ", " ", "  ") + value + w.sep())
			}
		default:
			b.WriteString(w.of("", " ", " # c") + "\n")
			w.block(b, indent+1+w.IntN(4), depth-1)
			continue
		}
		b.WriteString(w.of("", "", "", " ", " # c") + w.sep() + "\n")
	}
}

// Whatever quick accepts of random text, it reads as the parser does.
func TestQuickIsTheParser(t *testing.T) {
	const seed, rounds = 20261202, 60000
	r := rand.New(rand.NewPCG(seed, 1))
	accepted := 0
	for i := range rounds {
		w := writer{r, []int{1 << 30, 40, 10}[i%3]}
		var b strings.Builder
		w.block(&b, 0, 4)
		text := []byte(b.String())
		if i%4 == 0 && len(text) > 0 { // and anything, anywhere
			at := r.IntN(len(text))
			c := byte(w.of(" ", "\n", ":", "#", "-", "'", "\"", "{", "}", "[", "]", ",", "a", "1", ".", "\t", "&", "*", "!", "|", "?", "%", "~")[0])
			switch r.IntN(3) {
			case 0:
				text[at] = c
			case 1:
				text = append(text[:at], text[at+1:]...)
			default:
				text = append(text[:at], append([]byte{c}, text[at:]...)...)
			}
		}
		if compare(t, text) {
			accepted++
		}
	}
	if accepted < rounds/10 || accepted > rounds*9/10 {
		t.Errorf("seed %d: quick reads %d of %d texts: the test sees too little", seed, accepted, rounds)
	}
	t.Logf("quick reads %d of %d texts", accepted, rounds)
}

// Every YAML file of the project is read alike.
func TestQuickOnFiles(t *testing.T) {
	accepted := 0
	err := filepath.WalkDir("../..", func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(name, "yaml") {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if compare(t, data) {
			accepted++
		}
		return nil
	})
	if err != nil || accepted == 0 {
		t.Errorf("%d files, %v", accepted, err)
	}
}

func FuzzQuick(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		var b strings.Builder
		writer{r, 30}.block(&b, 0, 3)
		f.Add([]byte(b.String()))
	}
	f.Fuzz(func(t *testing.T, data []byte) { compare(t, data) })
}
