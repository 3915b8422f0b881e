package tests

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
)

// busyFleet is the fleet of the examples with forty clusters more and two gone: half a hundred locks and as many records to write.
func busyFleet(t *testing.T, dir string) {
	t.Helper()
	if err := os.CopyFS(dir, os.DirFS("../examples/fleet")); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"tenants/photon-prod/tidal.yaml", "tenants/quark-dev/stellar.yaml"} {
		if err := os.Remove(filepath.Join(dir, gone)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 {
		tenant := []string{"photon-prod", "dynamo-prod", "quark-dev"}[i%3]
		tier, pins := "kubeadm", ""
		switch {
		case i%4 == 3:
			tier = "kubeadm-v6"
		case i%10 == 2:
			pins = fmt.Sprintf("\n  address: 172.21.208.%d", 190+i/10)
		}
		subnet := "production"
		if tenant == "quark-dev" {
			subnet = "sandbox"
		} else if i < 20 {
			pins += fmt.Sprintf("\n  serverAddress: 10.100.0.%d", 240+i/3)
		}
		text := fmt.Sprintf("apiVersion: copyhold.dev/v1alpha1\nkind: ClusterRequest\nmetadata:\n  name: solar-%02d\nspec:\n  tier: %s\n  version: v1.34.1\n  subnet: %s%s\n", i, tier, subnet, pins)
		if err := os.WriteFile(filepath.Join(dir, "tenants", tenant, fmt.Sprintf("solar-%02d.yaml", i)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// allocate is copyhold allocate on a day of its own, in a repository.
func allocate(dir string, args ...string) *exec.Cmd {
	return copyhold(dir, append([]string{"allocate", "--today", "2026-12-01"}, args...)...)
}

// copyhold is the real command in a repository: testscript's copy of this binary, see TestMain.
func copyhold(dir string, args ...string) *exec.Cmd {
	c := exec.Command("copyhold", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "NO_COLOR=1")
	return c
}

// finish runs a command and returns its exit code and what it said on stderr.
func finish(t *testing.T, c *exec.Cmd) (int, string) {
	t.Helper()
	var stderr bytes.Buffer
	c.Stderr = &stderr
	var exit *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", c, err)
	}
	return c.ProcessState.ExitCode(), stderr.String()
}

// mustFinish wants exit code 0.
func mustFinish(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	code, stderr := finish(t, c)
	if code != 0 {
		t.Fatalf("%s: exit code %d\n%s", c, code, stderr)
	}
	return stderr
}

// contents are the files under the ledger folder of a repository, temporary ones included.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	tree := os.DirFS(dir)
	err := fs.WalkDir(tree, "ledger", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(tree, name)
		out[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// uninterrupted is the ledger of a busy fleet before and after a run that nobody disturbs, and how long that took.
func uninterrupted(t *testing.T) (before, after map[string]string, took time.Duration) {
	t.Helper()
	dir := t.TempDir()
	busyFleet(t, dir)
	before = contents(t, dir)
	start := time.Now()
	mustFinish(t, allocate(dir))
	took = time.Since(start)
	after = contents(t, dir)
	if n := len(after) - len(before); n < 80 {
		t.Fatalf("allocate wrote only %d files more", n)
	}
	whole(t, dir, before, after)
	return before, after, took
}

// whole checks a ledger that a run left in the middle: every file is as it was before or as it is to be, parses, and no address has two
// owners. It returns the temporary files and how many files are written already.
func whole(t *testing.T, dir string, before, after map[string]string) (temps []string, written int) {
	t.Helper()
	for name, text := range contents(t, dir) {
		old, was := before[name]
		switch {
		case strings.HasPrefix(filepath.Base(name), "."):
			temps = append(temps, name)
		case text == after[name] && (!was || old != text):
			written++
		case !was || text != old:
			t.Errorf("%s is neither as before the run nor as after it:\n%s", name, text)
		}
	}
	l, found, err := ledger.Load(os.DirFS(dir), "ledger", nil)
	if err != nil || len(found) > 0 {
		t.Fatalf("the ledger is damaged: %v\n%s", err, found)
	}
	once(t, l)
	return temps, written
}

// once checks that no address is held or on record twice, and that no record rests on another's lock. In subnets an address counts for
// itself.
func once(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	where := func(pool string, a string) string {
		if strings.Contains(pool, ".") {
			return pool + " " + a
		}
		return a
	}
	held := map[string]string{}
	for _, k := range l.AllLocks() {
		if k.Released() {
			continue
		}
		key := where(k.Pool, k.Address.String())
		if held[key] != "" {
			t.Errorf("%s is held by %s and %s", key, held[key], k.Holder)
		}
		held[key] = k.Holder
	}
	recorded := map[string]string{}
	for _, r := range l.AllRecords() {
		for pool, text := range map[string]string{r.AddressPool: r.Address, r.ServerPool: r.ServerAddress} {
			if text == "" || r.Released != "" {
				continue
			}
			a, err := netip.ParseAddr(text)
			if err != nil {
				t.Errorf("the record of %s: %v", r.Holder(), err)
			}
			key := where(pool, text)
			if recorded[key] != "" {
				t.Errorf("%s is on record for %s and %s", key, recorded[key], r.Holder())
			}
			recorded[key] = r.Holder()
			if k := l.Locks[pool][a]; k == nil || k.Holder != r.Holder() {
				t.Errorf("%s has %s on record without its lock: %+v", r.Holder(), key, k)
			}
		}
	}
}

// completes checks that another run brings the ledger to what an undisturbed one would have made, and leaves nothing behind.
func completes(t *testing.T, dir string, after map[string]string) {
	t.Helper()
	mustFinish(t, allocate(dir))
	if d := cmp.Diff(after, contents(t, dir)); d != "" {
		t.Errorf("the ledger (-undisturbed +completed):\n%s", d)
	}
	if out := mustFinish(t, copyhold(dir, "check")); strings.Contains(out, "[ledger/") {
		t.Errorf("copyhold check:\n%s", out)
	}
}

// trigger says when a run that was started is to be killed.
type trigger struct {
	name string
	due  func() bool
}

// triggers are spread over a run: over its time, over the temporary files it makes, and over the files of the ledger as they get their
// names, which is in the order of these names.
func triggers(dir string, r *rand.Rand, before, after map[string]string, took time.Duration) []trigger {
	fresh := slices.Sorted(maps.Keys(after))
	fresh = slices.DeleteFunc(fresh, func(name string) bool { _, old := before[name]; return old })
	end := time.Now().Add(time.Duration(r.Int64N(int64(took))))
	temps := 1 + r.IntN(len(fresh))
	out := []trigger{
		{"after a while", func() bool { return time.Now().After(end) }},
		{fmt.Sprintf("after %d temporary files", temps), func() bool { return temporaries(dir, fresh) >= temps }},
	}
	var some []int
	for range 4 {
		some = append(some, r.IntN(len(fresh)))
	}
	slices.Sort(some)
	for _, i := range slices.Compact(some) {
		out = append(out, trigger{"when " + fresh[i] + " appears", func() bool {
			_, err := os.Lstat(filepath.Join(dir, fresh[i]))
			return err == nil
		}})
	}
	return out
}

// temporaries counts the temporary files beside some files.
func temporaries(dir string, files []string) int {
	n := 0
	for name := range folders(files) {
		entries, _ := os.ReadDir(filepath.Join(dir, name)) // it may not be there yet
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".copyhold-") {
				n++
			}
		}
	}
	return n
}

func folders(files []string) map[string]bool {
	out := map[string]bool{}
	for _, f := range files {
		out[filepath.Dir(f)] = true
	}
	return out
}

// A run that is killed, wherever that is, leaves a ledger that is right as far as it goes, and the next run completes it to the very
// same addresses: a name picks by hash of what others have taken before it, and whoever was served already keeps what it has.
func TestLedgerCrash(t *testing.T) {
	const seed = 29
	kills := 60
	if testing.Short() {
		kills = 8
	}
	before, after, took := uninterrupted(t)
	r := rand.New(rand.NewPCG(seed, seed))
	killed, late, half, withTemps := 0, 0, 0, 0
	for round := 0; killed < kills; round++ {
		if round > 4*kills {
			t.Fatalf("only %d of %d runs could be killed before they ended (seed %d)", killed, killed+late, seed)
		}
		dir := t.TempDir()
		busyFleet(t, dir)
		// One after the other on the same repository: what a killed run left is what the next one is killed on.
		for _, when := range triggers(dir, r, before, after, took) {
			was, died := kill(t, allocate(dir), when)
			temps, written := whole(t, dir, before, after)
			if t.Failed() {
				t.Fatalf("killed %s (seed %d, round %d)", when.name, seed, round)
			}
			if !died {
				late++
				if was != 0 {
					t.Fatalf("copyhold allocate: exit code %d (seed %d, round %d)", was, seed, round)
				}
				break // it is complete: there is nothing left to kill
			}
			killed++
			if len(temps) > 0 {
				withTemps++
			}
			if written > 0 && written < len(after)-len(before) {
				half++
			}
		}
		completes(t, dir, after)
		if t.Failed() {
			t.Fatalf("after round %d (seed %d)", round, seed)
		}
	}
	t.Logf("%d runs killed, %d of them with temporary files left, %d with a part of the ledger written; %d ended before", killed, withTemps, half, late)
	if !testing.Short() && (withTemps < 5 || half < 1) {
		t.Errorf("of %d kills %d left temporary files and %d a part of the ledger: the test does not try what it is for", killed, withTemps, half)
	}
}

// kill starts a command and kills it when that is due. It reports the exit code of a command that ended before.
func kill(t *testing.T, c *exec.Cmd, when trigger) (code int, died bool) {
	t.Helper()
	var stderr bytes.Buffer
	c.Stderr = &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	for !when.due() {
		select {
		case <-done:
			return c.ProcessState.ExitCode(), false
		default:
		}
	}
	_ = c.Process.Kill() // it may have ended by itself just now
	<-done
	status, ok := c.ProcessState.Sys().(syscall.WaitStatus)
	return c.ProcessState.ExitCode(), ok && status.Signaled()
}

// A disk that fills up costs nothing that is there, and copyhold says which file it could not write.
func TestLedgerCrashDiskFull(t *testing.T) {
	before, after, _ := uninterrupted(t)
	for _, c := range []struct {
		name    string
		options string
		leave   int // pages or files that are free when the run begins
		fill    func(t *testing.T, dir string, leave int) (undo func())
	}{
		{"no room at all", "size=4m", 0, fillPages},
		{"room for five files", "size=4m", 5, fillPages},
		{"room for most", "size=4m", 70, fillPages},
		{"no inode", "size=8m,nr_inodes=2000", 0, fillInodes},
		{"inodes for twenty", "size=8m,nr_inodes=2000", 20, fillInodes},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := tmpfs(t, c.options)
			busyFleet(t, dir)
			undo := c.fill(t, dir, c.leave)
			code, stderr := finish(t, allocate(dir))
			if code != 3 || !strings.HasPrefix(stderr, "copyhold: writing ledger/") || !strings.Contains(stderr, ".yaml: ") || !strings.Contains(stderr, "no space left on device") || strings.Count(stderr, "\n") != 1 {
				t.Errorf("allocate on a full disk: exit code %d, want 3 and a line that names the file and the reason:\n%s", code, stderr)
			}
			if temps, _ := whole(t, dir, before, after); len(temps) > 0 {
				t.Errorf("left behind: %v", temps)
			}
			undo()
			completes(t, dir, after)
		})
	}
}

// tmpfs mounts a file system of its own, until the test ends.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting needs root; CI has it")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "copyhold-test", dir).CombinedOutput(); err != nil {
		t.Skipf("mount: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount %s: %v\n%s", dir, err, out)
		}
	})
	return dir
}

// fillPages fills a file system but for some pages, with one file beside the repository's.
func fillPages(t *testing.T, dir string, leave int) func() {
	t.Helper()
	name := filepath.Join(dir, ".ballast")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	page := make([]byte, os.Getpagesize())
	pages := 0
	for {
		if _, err := f.Write(page); errors.Is(err, syscall.ENOSPC) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		pages++
	}
	if err := errors.Join(f.Truncate(int64((pages-leave)*len(page))), f.Close()); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// fillInodes makes empty files until there is room for a few more only.
func fillInodes(t *testing.T, dir string, leave int) func() {
	t.Helper()
	ballast := filepath.Join(dir, ".ballast")
	if err := os.Mkdir(ballast, 0o755); err != nil {
		t.Fatal(err)
	}
	n := 0
	for {
		f, err := os.Create(filepath.Join(ballast, fmt.Sprint(n)))
		if errors.Is(err, syscall.ENOSPC) {
			break
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		n++
	}
	for i := range leave {
		if err := os.Remove(filepath.Join(ballast, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.RemoveAll(ballast); err != nil {
			t.Fatal(err)
		}
	}
}

// A ledger that may not be written is said to be so, is left as it is, and can still be asked what would be done.
func TestLedgerCrashReadOnly(t *testing.T) {
	before, after, _ := uninterrupted(t)
	for name, lock := range map[string]func(t *testing.T) (dir, reason string, undo func()){
		"no permission": func(t *testing.T) (string, string, func()) {
			dir := t.TempDir()
			busyFleet(t, dir)
			undo := func() { modes(t, filepath.Join(dir, "ledger"), 0o755, 0o644) }
			t.Cleanup(undo) // so that the folder can be removed
			modes(t, filepath.Join(dir, "ledger"), 0o555, 0o444)
			return dir, "permission denied", undo
		},
		"read-only file system": func(t *testing.T) (string, string, func()) {
			dir := tmpfs(t, "size=8m")
			busyFleet(t, dir)
			remount := func(how string) {
				if out, err := exec.Command("mount", "-o", "remount,"+how, dir).CombinedOutput(); err != nil {
					t.Fatalf("mount: %v\n%s", err, out)
				}
			}
			remount("ro")
			return dir, "read-only file system", func() { remount("rw") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, reason, undo := lock(t)
			code, stderr := finish(t, powerless(t, allocate(dir)))
			if code != 3 || !strings.HasPrefix(stderr, "copyhold: writing ledger/") || !strings.Contains(stderr, reason) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("allocate: exit code %d, want 3 and a line that names the file and %q:\n%s", code, reason, stderr)
			}
			if d := cmp.Diff(before, contents(t, dir)); d != "" {
				t.Errorf("the ledger (-before +after):\n%s", d)
			}
			if said := mustFinish(t, powerless(t, allocate(dir, "--dry-run"))); !strings.Contains(said, "files would be written") {
				t.Errorf("allocate --dry-run:\n%s", said)
			}
			undo()
			completes(t, dir, after)
		})
	}
}

// powerless runs a command without root's right to write where nobody may.
func powerless(t *testing.T, c *exec.Cmd) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		return c
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("root may write everywhere, and there is no setpriv to take that away")
	}
	out := exec.Command(setpriv, append([]string{"--bounding-set=-all", "--inh-caps=-all"}, c.Args...)...)
	out.Dir, out.Env = c.Dir, c.Env
	return out
}

// modes sets the permissions of a folder and what is in it.
func modes(t *testing.T, dir string, folder, file fs.FileMode) {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		names = append(names, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := os.Lstat(name)
		if err != nil {
			t.Fatal(err)
		}
		mode := file
		if info.IsDir() {
			mode = folder
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
}

// Of several runs at once one writes the ledger, and the others say so or come after it.
func TestLedgerCrashTwoAtOnce(t *testing.T) {
	before, after, _ := uninterrupted(t)
	const busy = "another copyhold is writing "
	t.Run("while it is locked", func(t *testing.T) {
		dir := t.TempDir()
		busyFleet(t, dir)
		folder, err := os.Open(filepath.Join(dir, "ledger"))
		if err != nil {
			t.Fatal(err)
		}
		defer folder.Close()
		if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			t.Fatal(err)
		}
		code, stderr := finish(t, allocate(dir))
		if want := "copyhold: " + busy + filepath.Join(dir, "ledger") + ": try again when it is done\n"; code != 3 || stderr != want {
			t.Errorf("allocate while another writes: exit code %d, want 3\n%s", code, cmp.Diff(want, stderr))
		}
		if d := cmp.Diff(before, contents(t, dir)); d != "" {
			t.Errorf("the ledger (-before +after):\n%s", d)
		}
		mustFinish(t, allocate(dir, "--dry-run")) // to look is always allowed
		if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_UN); err != nil {
			t.Fatal(err)
		}
		completes(t, dir, after)
	})
	t.Run("at once", func(t *testing.T) {
		refused := 0
		for round := range 3 {
			dir := t.TempDir()
			busyFleet(t, dir)
			var runs []*exec.Cmd
			var said [3]bytes.Buffer
			for i := range said {
				c := allocate(dir)
				c.Stderr = &said[i]
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				runs = append(runs, c)
			}
			won := 0
			for i, c := range runs {
				_ = c.Wait() // the exit code says it
				switch code := c.ProcessState.ExitCode(); {
				case code == 0:
					won++
				case code == 3 && strings.Contains(said[i].String(), busy):
					refused++
				default:
					t.Errorf("round %d: exit code %d\n%s", round, code, &said[i])
				}
			}
			if temps, _ := whole(t, dir, before, after); won == 0 || len(temps) > 0 {
				t.Errorf("round %d: %d of %d runs had their way, left behind: %v", round, won, len(runs), temps)
			}
			completes(t, dir, after)
		}
		t.Logf("%d runs were refused", refused)
	})
}

// A ledger folder that leads out of the repository is not written through.
func TestLedgerCrashOutside(t *testing.T) {
	for name, spoil := range map[string]func(dir, outside string) error{
		"the folder is a link": func(dir, outside string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "ledger")), os.Symlink(outside, filepath.Join(dir, "ledger")))
		},
		"a folder in it is a link": func(dir, outside string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "ledger/addresses")), os.Symlink(outside, filepath.Join(dir, "ledger/addresses")))
		},
		"a record names a pool out there": func(dir, outside string) error {
			up, err := filepath.Rel(filepath.Join(dir, "ledger/addresses"), outside)
			text := "apiVersion: copyhold.dev/v1alpha1\nkind: ClusterRecord\nmetadata: {namespace: photon-prod, name: solar-00}\nspec: {address: 172.21.208.150, addressPool: " + up + "}\n"
			return errors.Join(err, os.WriteFile(filepath.Join(dir, "ledger/clusters/photon-prod/solar-00.yaml"), []byte(text), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, outside := t.TempDir(), t.TempDir()
			busyFleet(t, dir)
			if err := spoil(dir, outside); err != nil {
				t.Fatal(err)
			}
			code, stderr := finish(t, allocate(dir))
			if code == 0 {
				t.Errorf("allocate: exit code 0, want it to refuse\n%s", stderr)
			}
			written, err := os.ReadDir(outside)
			if err != nil || len(written) > 0 {
				t.Errorf("allocate wrote outside of the repository: %v, %v", written, err)
			}
		})
	}
}

// Findings of the ledger are errors of the user's files, whatever a run that was cut off left: they are never exit code 3.
func TestLedgerCrashHalfFile(t *testing.T) {
	dir := t.TempDir()
	busyFleet(t, dir)
	const name = "ledger/addresses/tenant-cp-pool/172.21.208.100.yaml"
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, len(data) / 3, len(data) / 2, len(data) - 8} {
		if err := os.WriteFile(filepath.Join(dir, name), data[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		_, found, err := ledger.Load(os.DirFS(dir), "ledger", nil)
		if err != nil || !found.Failed() || slices.ContainsFunc(found, func(f diag.Finding) bool { return f.Pos.File != name }) {
			t.Errorf("Load with the first %d bytes of a lock = %v, %s, want a finding in it", n, err, found)
		}
	}
	old := contents(t, dir)
	if code, stderr := finish(t, allocate(dir)); code != 1 || !strings.HasPrefix(stderr, name) {
		t.Errorf("allocate with half a lock: exit code %d, want 1\n%s", code, stderr)
	}
	if d := cmp.Diff(old, contents(t, dir)); d != "" {
		t.Errorf("the ledger (-before +after):\n%s", d)
	}
}
