package tests

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
)

// history is a piece of work being done with one kind of ledger.
type history struct {
	checkout
	work
	book
	renames []string // options of git merge and git rebase

	day   int
	main  map[string]entry  // the ledger of the main branch
	asked map[string]string // its requests, and what they pin
	seen  map[string]string // all its files

	tries, conflicts, real int // conflicts in the ledger, and those about an address that both sides changed
	passed                 int // addresses that went to another holder when their quarantine was over
}

const firstDay = "2026-12-01"

func after(day string, n int) string {
	d, err := time.Parse(time.DateOnly, day)
	if err != nil {
		panic(err)
	}
	return d.AddDate(0, 0, n).Format(time.DateOnly)
}

func (h *history) today() string { return after(firstDay, h.day) }

func (h *history) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatalf("seed %d, after %d tries: %v", h.seed, h.tries, err)
	}
}

// begin makes the main branch and, each from there, the others.
func (h *history) begin() {
	h.t.Helper()
	h.set("copyhold.yaml", "apiVersion: copyhold.dev/v1alpha1\nkind: Repository\n")
	h.set("catalog/catalog.yaml", fmt.Sprintf(mergeCatalog, h.pool, ""))
	h.set("catalog/classes/own/class.yaml", mergeClass)
	for i, day := range []string{"2026-10-01", "2026-10-05", "2026-11-25"} {
		for j, holder := range slices.Concat(h.gone, h.base) {
			if h.set(requestFile(holder), requestText(holder, "", 1)); j < 6*i {
				h.set(requestFile(holder), "")
			}
		}
		h.must(h.allocate(h.checkout, day))
	}
	h.git("init", "-q")
	h.commit("base")
	h.git("tag", "base")
	h.count("base")
	var stream strings.Builder // one git process for sixty commits, and nothing checked out
	for _, b := range h.branches {
		h.change(b, after(firstDay, b.day))
		now := h.files()
		b.was, b.is = h.main, h.read(h.t, now)
		fmt.Fprintf(&stream, "commit refs/heads/%s\ncommitter copyhold <copyhold@example.org> 1796083200 +0000\ndata %d\n%s\nfrom refs/tags/base\n", b.name, len(b.name), b.name)
		names := maps.Clone(h.seen)
		maps.Copy(names, now)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			switch text := now[name]; text {
			case h.seen[name]:
				continue
			case "":
				fmt.Fprintf(&stream, "D %s\n", name)
			default:
				fmt.Fprintf(&stream, "M 100644 inline %s\ndata %d\n%s\n", name, len(text), text)
			}
			h.set(name, h.seen[name])
		}
	}
	out, err := h.try(stream.String(), "fast-import", "--quiet")
	if out += h.git("status", "--porcelain"); err != nil || out != "" {
		h.t.Fatalf("git fast-import: %v\n%s", err, out)
	}
}

// change makes a branch's change in the working tree. A pin that somebody else has got is given up.
func (h *history) change(b *branch, day string) {
	h.t.Helper()
	for _, holder := range b.removes {
		h.set(requestFile(holder), "")
	}
	h.set(requestFile(b.adds), requestText(b.adds, b.pin, 1))
	err := h.allocate(h.checkout, day)
	if err != nil && b.pin != "" {
		b.pin = ""
		h.set(requestFile(b.adds), requestText(b.adds, "", 1))
		err = h.allocate(h.checkout, day)
	}
	h.must(err)
}

// play does all the work.
func (h *history) play() {
	h.t.Helper()
	h.begin()
	for todo := slices.Clone(h.branches); len(todo) > 0; {
		b := todo[0]
		todo = todo[1:]
		if !b.tried {
			b.tried = true
			if edit := h.between[h.day]; edit != nil {
				edit(h)
				h.must(h.allocate(h.checkout, h.today()))
				h.commit("main")
				h.count("a commit to main")
			}
			h.day++
		}
		both := contested(b.was, b.is, h.main)
		if h.bring(b) {
			if both != "" {
				h.t.Errorf("%s of %s went well, though %s was changed on both sides", b.kind, b.name, both)
			}
			h.count(b.kind + " of " + b.name)
			h.landed(b)
		} else {
			h.again(b, both)
			todo = slices.Insert(todo, min(b.wait, len(todo)), b)
		}
		if h.t.Failed() {
			h.t.Fatalf("stopped at %s of %s, after %d tries (seed %d)", b.kind, b.name, h.tries, h.seed)
		}
	}
}

// bring puts a branch on the main branch, if Git can.
func (h *history) bring(b *branch) bool {
	h.tries++
	var err error
	switch b.kind {
	case "merge":
		_, err = h.try("", append([]string{"merge", "-q", "--no-ff", "-m", b.name, b.name}, h.renames...)...)
	case "squash":
		if _, err = h.try("", append([]string{"merge", "-q", "--squash", b.name}, h.renames...)...); err == nil {
			h.git("commit", "-q", "-m", b.name)
		}
	case "rebase":
		if _, err = h.try("", append([]string{"rebase", "-q", "main", b.name}, h.renames...)...); err == nil {
			h.git("checkout", "-q", "-B", "main")
		}
	}
	return err == nil
}

// again does what a person does with a branch that could not be merged: bring it up to date, keep the main branch's side of the ledger,
// run allocate, commit. The requests that the branch is about are as the branch wants them.
func (h *history) again(b *branch, both string) {
	h.t.Helper()
	if unmerged := h.git("diff", "--name-only", "--diff-filter=U"); strings.Contains(unmerged, "ledger/") { // else it is about requests
		h.conflicts++
		if both != "" {
			h.real++
		}
	}
	var err error
	if b.kind == "rebase" {
		h.git("rebase", "--abort")
		_, err = h.try("", append([]string{"rebase", "-q", "main", b.name}, h.renames...)...)
	} else {
		h.git("checkout", "-q", "-f", b.name)
		_, err = h.try("", append([]string{"merge", "-q", "-m", b.name, "main"}, h.renames...)...)
	}
	if err == nil {
		h.t.Fatalf("main does not take %s, but %s takes main", b.name, b.name)
	}
	h.git("add", "-A") // git restore refuses conflicts in files that main does not have
	h.git("restore", "--source=main", "--staged", "--worktree", "ledger", "tenants")
	h.change(b, h.today())
	if b.kind == "rebase" {
		h.git("add", "-A")
		h.git("rebase", "--continue")
	} else {
		h.commit(b.name)
	}
	b.was, b.is = h.main, h.read(h.t, h.files())
	h.git("checkout", "-q", "main")
}

// contested is an address that both sides changed since they parted, and not to the same.
func contested(was, ours, theirs map[string]entry) string {
	for _, a := range slices.Sorted(maps.Keys(theirs)) {
		if ours[a] != was[a] && theirs[a] != was[a] && ours[a] != theirs[a] {
			return a
		}
	}
	return ""
}

// count looks at the main branch with nobody's help: each request has one address and nobody else has it; and nothing that was there is
// lost, moved, or given to another before its day. Then the product's own checks are run over it.
func (h *history) count(what string) {
	h.t.Helper()
	files := h.files()
	now, asked, has := h.read(h.t, files), requests(h.t, files), map[string]string{}
	for a, e := range now {
		if _, ok := asked[e.holder]; e.until == "" && (!ok || has[e.holder] != "") {
			h.t.Errorf("%s: %s is held by %s, which is asked for: %v, and has %q", what, a, e.holder, ok, has[e.holder])
		}
		if e.until == "" {
			has[e.holder] = a
		}
	}
	for holder, pin := range asked {
		if has[holder] == "" || pin != "" && pin != has[holder] {
			h.t.Errorf("%s: %s has %q, and pins %q", what, holder, has[holder], pin)
		}
	}
	for a, was := range h.main {
		is := now[a]
		_, stays := asked[was.holder]
		switch {
		case was.until == "" && stays && is != was:
			h.t.Errorf("%s: %s was taken from %s: %+v", what, a, was.holder, is)
		case is.holder != was.holder && (was.until == "" || h.today() < was.until):
			h.t.Errorf("%s: %s of %s has another holder before its day %s: %+v", what, a, was.holder, was.until, is)
		case is.holder != was.holder:
			h.passed++
		}
	}
	for name := range h.seen {
		if _, there := files[name]; !there && strings.HasPrefix(name, "ledger/") {
			h.t.Errorf("%s: %s is gone", what, name)
		}
	}
	h.main, h.asked, h.seen = now, asked, files
	if h.ours {
		h.judge()
	}
}

// judge lets the product check the ledger as a whole.
func (h *history) judge() {
	h.t.Helper()
	tree := os.DirFS(h.dir)
	offer, found, err := catalog.Load(tree, "catalog")
	h.must(err)
	l, more, err := ledger.Load(tree, "ledger", nil)
	h.must(err)
	var wanted []ledger.Wanted
	for holder, pin := range h.asked {
		namespace, name := path.Split(holder)
		a, _ := netip.ParseAddr(pin) // most pin none
		wanted = append(wanted, ledger.Wanted{Namespace: path.Clean(namespace), Name: name, Claims: []ledger.Claim{{Field: "address", Pool: mergePool, Pin: a}}})
	}
	found.Add(slices.Concat(more, l.Check(wanted, offer.Pools), l.CheckWanted(wanted, offer.Pools))...)
	if found.Failed() {
		h.t.Error(found)
	}
}

// landed wants what a branch is about to be so on the main branch.
func (h *history) landed(b *branch) {
	h.t.Helper()
	for _, holder := range append(b.removes, b.adds) {
		if _, there := h.asked[holder]; there != (holder == b.adds) {
			h.t.Errorf("%s of %s: %s is asked for: %v", b.kind, b.name, holder, there)
		}
	}
	for a, e := range b.is {
		if e.holder == b.adds && h.main[a] != e {
			h.t.Errorf("%s of %s gave %s to %s, and now it says %+v", b.kind, b.name, a, b.adds, h.main[a])
		}
	}
}

// end is for the whole product: nothing is wrong, nothing is left to do, no file of the ledger was ever deleted.
func (h *history) end() {
	h.t.Helper()
	_, err := h.copyhold("check", "--base", "base")
	h.must(err)
	said, err := h.copyhold("allocate", "--dry-run", "--today", h.today())
	if h.must(err); said != "nothing to do\n" {
		h.t.Errorf("allocate in the end: %s", said)
	}
	if out := h.git("log", "--first-parent", "-m", "--no-renames", "--diff-filter=D", "--name-only", "--format=%h %s", "--", "ledger"); out != "" {
		h.t.Errorf("deleted:\n%s", out)
	}
	if h.conflicts != h.real {
		h.t.Errorf("%d conflicts, of which %d are about an address that both sides changed: want no other", h.conflicts, h.real)
	}
}

// Sixty branches from one base give out addresses and take some back, and are merged in one order or another, while pools change and
// quarantines pass: no address is given out twice and nothing is lost without a word, however eager Git is to see renames. The table in
// docs/ledger.md is what comes of the same work with other ways to keep a ledger.
func TestLedgerMerge(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatalf("this test merges with the real git: %v", err)
	}
	const (
		seed         = 1 // of the table
		small, large = "172.21.208.0-172.21.208.127", "172.21.0.0-172.21.255.255"
	)
	eager := []string{"-X", "find-renames=10%"}
	type run struct {
		row  string // of the table
		seed uint64
		book
		pool    string
		renames []string
		history history
	}
	runs := []run{
		{row: "a file per address, by hash | 128", seed: seed, book: onePerAddress, pool: small},
		{row: "one sorted file, by hash | 128", seed: seed, book: oneFileByHash, pool: small},
		{row: "one sorted file, lowest free | 128", seed: seed, book: oneFileLowest, pool: small},
		{row: "a file per address, by hash | 65,536", seed: seed, book: onePerAddress, pool: large},
		{row: "one sorted file, by hash | 65,536", seed: seed, book: oneFileByHash, pool: large},
		{seed: 2, book: onePerAddress, pool: small},
		{seed: 2, book: onePerAddress, pool: small, renames: eager},
		{seed: 3, book: onePerAddress, pool: small, renames: eager},
	}
	t.Run("runs", func(t *testing.T) {
		for i, r := range runs {
			t.Run(fmt.Sprintf("seed %d %s %v", r.seed, r.row, r.renames), func(t *testing.T) {
				t.Parallel()
				h := &runs[i].history
				*h = history{checkout: inMemory(t), work: plan(r.seed, r.pool), book: r.book, renames: r.renames}
				h.play()
				if r.ours {
					h.end()
				}
				if r.pool == small && (h.passed == 0 || h.real < 10) {
					t.Errorf("only %d addresses went to another holder, and %d were wanted twice: nothing was tried", h.passed, h.real)
				}
				t.Logf("%d merges tried, %d conflicts, %d of them real; %d addresses went to another after quarantine", h.tries, h.conflicts, h.real, h.passed)
			})
		}
	})
	if t.Failed() || slices.ContainsFunc(runs, func(r run) bool { return r.history.tries == 0 }) { // -run has left some out
		return
	}
	table := fmt.Sprintf("| ledger (seed %d) | addresses | merges tried | conflicts | of them real |\n| --- | ---: | ---: | ---: | ---: |\n", seed)
	for _, r := range runs {
		if r.row != "" {
			table += fmt.Sprintf("| %s | %d | %d | %d |\n", r.row, r.history.tries, r.history.conflicts, r.history.real)
		}
	}
	compareTable(t, "../docs/ledger.md", table)
}

// compareTable wants a text between the marks of the merge table in a file.
func compareTable(t *testing.T, file, want string) {
	t.Helper()
	const begin, end = "<!-- merge table: begin -->\n", "<!-- merge table: end -->\n"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, begun := strings.Cut(string(data), begin)
	got, tail, ended := strings.Cut(rest, end)
	if !begun || !ended {
		t.Fatalf("%s has no place for the merge table", file)
	}
	if *update {
		if err := os.WriteFile(file, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("the merge table of %s (-written +merged):\n%s", file, d)
	}
}
