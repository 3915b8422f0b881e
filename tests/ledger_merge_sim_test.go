package tests

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/cmd"
)

// The repository that is merged in has the least class that Cluster API takes: a run of the real allocate is then a hundredth of a
// second, where a chart of classes would make it a fifth, and there are a thousand runs. The ledger does not know the difference.
const (
	mergePool    = "tenant-cp-pool"
	mergeCatalog = `apiVersion: copyhold.dev/v1alpha1
kind: Catalog
spec:
  clusterAPI: v1.14.2
  tiers: {own: {class: own, from: own, addressPool: tenant-cp-pool}}
  classes: {own: {manifests: classes/own, namespace: platform, fields: {subnet: network.subnet, address: vip}}}
  versions: [v1.34.1]
  addressPools:
    tenant-cp-pool: {namespace: kmetal-metallb, addresses: [%s], reserved: [%s]}
`
	mergeClass = `apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: own, namespace: platform}
spec:
  infrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: KubevirtClusterTemplate, name: own}}
  controlPlane: {templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1alpha2, kind: KamajiControlPlaneTemplate, name: own}}
  workers:
    machineDeployments:
    - class: pool
      bootstrap: {templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfigTemplate, name: own}}
      infrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: KubevirtMachineTemplate, name: own}}
  variables:
  - {name: network, required: true, schema: {openAPIV3Schema: {type: object, properties: {subnet: {type: string}}}}}
  - {name: vip, required: true, schema: {openAPIV3Schema: {type: string}}}
---
{apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: KubevirtClusterTemplate, metadata: {name: own, namespace: platform}, spec: {template: {spec: {}}}}
---
{apiVersion: controlplane.cluster.x-k8s.io/v1alpha2, kind: KamajiControlPlaneTemplate, metadata: {name: own, namespace: platform}, spec: {template: {spec: {}}}}
---
{apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfigTemplate, metadata: {name: own, namespace: platform}, spec: {template: {spec: {}}}}
---
{apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: KubevirtMachineTemplate, metadata: {name: own, namespace: platform}, spec: {template: {spec: {}}}}
`
)

// branch is a change that somebody proposes: one cluster more, perhaps at an address of their choice, perhaps instead of others.
type branch struct {
	name    string
	adds    string // namespace/name
	pin     string
	removes []string
	day     int    // on which it was allocated
	kind    string // merge, squash or rebase
	wait    int    // how many others come first when it has to be tried again

	was, is map[string]entry // the ledger that it starts from, and its own
	tried   bool
}

// work is what is merged, in that order, and what is done on the main branch in between.
type work struct {
	seed     uint64
	pool     string
	base     []string // clusters that are there already
	gone     []string // clusters that were there once, of which the second half is in quarantine
	branches []*branch
	between  map[int]func(*history) // by how many branches were tried before
}

// plan draws sixty branches and what happens meanwhile. The pool is a range that begins with .0 and holds 172.21.208.0/25.
func plan(seed uint64, pool string) work {
	r := rand.New(rand.NewPCG(seed, seed))
	w := work{seed: seed, pool: pool, between: map[int]func(*history){}}
	tenants := []string{"photon-prod", "dynamo-prod", "quark-dev"}
	for i := range 48 {
		w.base = append(w.base, fmt.Sprintf("%s/lunar-%02d", tenants[r.IntN(3)], i))
	}
	w.gone, w.base = w.base[:12], w.base[12:]
	for i := range 60 {
		b := &branch{name: fmt.Sprintf("branch-%02d", i), adds: fmt.Sprintf("%s/solar-%02d", tenants[r.IntN(3)], i), wait: r.IntN(3)}
		b.kind = []string{"merge", "squash", "rebase"}[r.IntN(3)]
		if i%6 == 0 { // of sixteen addresses: some are held, some are wanted twice
			b.pin = fmt.Sprintf("172.21.208.%d", 64+r.IntN(16))
		}
		if i%5 == 0 { // some take away what another one does, too
			b.removes = append(b.removes, w.base[r.IntN(18)])
		}
		if i%15 == 0 {
			b.removes = append(b.removes, w.base[r.IntN(18)])
		}
		w.branches = append(w.branches, b)
	}
	r.Shuffle(len(w.branches), func(i, j int) { w.branches[i], w.branches[j] = w.branches[j], w.branches[i] })
	for i := range w.branches {
		w.branches[i].day = r.IntN(i + 1)
		cluster, back, n := w.base[r.IntN(len(w.base))], w.gone[r.IntN(len(w.gone))], 2+r.IntN(8)
		switch i % 6 {
		case 1:
			w.between[i] = func(h *history) {
				if _, there := h.asked[cluster]; there {
					h.set(requestFile(cluster), requestText(cluster, "", n))
				}
			}
		case 3:
			w.between[i] = func(h *history) { h.set(requestFile(cluster), "") }
		case 5:
			w.between[i] = func(h *history) { h.set(requestFile(back), requestText(back, "", 1)) }
		}
	}
	for i, p := range map[int][2]string{
		8:  {pool, "172.21.208.70-172.21.208.75"},
		20: {pool + ", 172.22.0.0/27", "172.21.208.70-172.21.208.75"},
		32: {pool + ", 172.22.0.0/27", "172.21.208.9"},
		44: {strings.Replace(pool, ".0-", ".16-", 1) + ", 172.22.0.0/27", ""},
	} {
		w.between[i] = func(h *history) { h.set("catalog/catalog.yaml", fmt.Sprintf(mergeCatalog, p[0], p[1])) }
	}
	return w
}

func requestFile(holder string) string { return "tenants/" + holder + ".yaml" }

func requestText(holder, pin string, replicas int) string {
	if pin != "" {
		pin = "\n  address: " + pin
	}
	return fmt.Sprintf("apiVersion: copyhold.dev/v1alpha1\nkind: ClusterRequest\nmetadata:\n  name: %s\nspec:\n  tier: own\n  version: v1.34.1\n  subnet: production%s\n  workers:\n    md-0:\n      replicas: %d\n",
		path.Base(holder), pin, replicas)
}

// checkout is a Git repository with its working tree.
type checkout struct {
	t   *testing.T
	dir string
}

// inMemory is where files need not wait for the disk, as allocate otherwise would for most of its time.
func inMemory(t *testing.T) checkout {
	dir, err := os.MkdirTemp("/dev/shm", "copyhold-test-")
	if err != nil {
		return checkout{t, t.TempDir()}
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return checkout{t, dir}
}

// try runs git as nobody in particular, on no particular day, with no configuration but this.
func (c checkout) try(stdin string, args ...string) (string, error) {
	fixed := []string{"-c", "init.defaultBranch=main", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.fsync=none", "-c", "core.editor=true"}
	run := exec.Command("git", append(fixed, args...)...)
	run.Dir, run.Stdin = c.dir, strings.NewReader(stdin)
	run.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	run.Env = append(run.Env, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "HOME="+c.dir, "LC_ALL=C")
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		run.Env = append(run.Env, "GIT_"+who+"_NAME=copyhold", "GIT_"+who+"_EMAIL=copyhold@example.org", "GIT_"+who+"_DATE=2026-12-01T00:00:00Z")
	}
	out, err := run.CombinedOutput()
	return string(out), err
}

// git is a command that has to succeed.
func (c checkout) git(args ...string) string {
	c.t.Helper()
	out, err := c.try("", args...)
	if err != nil {
		c.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// commit is the whole working tree, changed or not.
func (c checkout) commit(what string) {
	c.t.Helper()
	c.git("add", "-A")
	c.git("commit", "-q", "--allow-empty", "-m", what)
}

// set writes a file, or removes it when there is no text for it.
func (c checkout) set(name, text string) {
	c.t.Helper()
	file := filepath.Join(c.dir, name)
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil && text != "" {
		err = os.WriteFile(file, []byte(text), 0o644)
	} else if err == nil {
		err = os.RemoveAll(file)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// files are those of the working tree, by name.
func (c checkout) files() map[string]string {
	c.t.Helper()
	out, tree := map[string]string{}, os.DirFS(c.dir)
	err := fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err == nil && name == ".git":
			return fs.SkipDir
		case err != nil || e.IsDir():
			return err
		}
		data, err := fs.ReadFile(tree, name)
		out[name] = string(data)
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// oneAtATime guards the engine behind the command, which is made for one run in a process.
var oneAtATime sync.Mutex

// copyhold is the real command, in this process.
func (c checkout) copyhold(args ...string) (said string, err error) {
	oneAtATime.Lock()
	defer oneAtATime.Unlock()
	syscall.ForkLock.RLock() // a git that is just being started would have the handle that the ledger is locked by
	defer syscall.ForkLock.RUnlock()
	var stdout, stderr bytes.Buffer
	if code := cmd.Main(append(args, "--root", c.dir), strings.NewReader(""), &stdout, &stderr); code != 0 {
		err = fmt.Errorf("copyhold %s: exit code %d\n%s", strings.Join(args, " "), code, &stderr)
	}
	return stderr.String(), err
}

// entry is what a ledger says of an address: its holder, and until when it is in quarantine if it is released.
type entry struct{ holder, until string }

// book is a way to keep a ledger.
type book struct {
	allocate func(c checkout, day string) error
	read     func(t *testing.T, files map[string]string) map[string]entry // by address
	ours     bool
}

var (
	onePerAddress = book{func(c checkout, day string) error { _, err := c.copyhold("allocate", "--today", day); return err }, readFiles, true}
	oneFileByHash = book{sorted(func(p ledger.Pool, holder string, used map[netip.Addr]string) (netip.Addr, bool) {
		return p.Pick(holder, used)
	}), readLines, false}
	oneFileLowest = book{sorted(lowest), readLines, false}
)

// readFiles counts a ledger of files without any code of the product: what a line says is what stands behind its key.
func readFiles(t *testing.T, files map[string]string) map[string]entry {
	t.Helper()
	out, holds := map[string]entry{}, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		part := strings.Split(strings.TrimSuffix(name, ".yaml"), "/")
		if part[0] != "ledger" {
			continue
		}
		f := map[string]string{}
		for line := range strings.Lines(files[name]) {
			key, value, ok := strings.Cut(strings.TrimSpace(line), ":")
			if _, twice := f[key]; twice || !ok {
				t.Errorf("%s: unexpected line %q", name, line)
			}
			f[key] = strings.Trim(value, ` "`)
		}
		switch {
		case len(part) == 4 && part[1] == "addresses" && part[2] == mergePool && f["kind"] == "AddressLock" && f["address"] == part[3] && (f["state"] == "held") == (f["until"] == ""):
			out[f["address"]] = entry{f["holder"], f["until"]}
		case len(part) == 4 && part[1] == "clusters" && f["kind"] == "ClusterRecord" && f["namespace"] == part[2] && f["name"] == part[3]:
			if f["released"] == "" {
				holds[part[2]+"/"+part[3]] = f["address"]
			}
		default:
			t.Errorf("%s does not speak of what its name says:\n%s", name, files[name])
		}
	}
	for _, e := range out {
		if _, ok := holds[e.holder]; e.until == "" && !ok {
			t.Errorf("%s has a lock and no record", e.holder)
		}
	}
	for holder, a := range holds { // with one lock for an address, no two records can have it
		if out[a] != (entry{holder, ""}) {
			t.Errorf("the record of %s has %s, whose lock says %+v", holder, a, out[a])
		}
	}
	return out
}

const bookFile = "ledger/addresses.txt"

func readLines(t *testing.T, files map[string]string) map[string]entry {
	t.Helper()
	out := map[string]entry{}
	for line := range strings.Lines(files[bookFile]) {
		f := append(strings.Fields(line), "", "")
		if _, err := netip.ParseAddr(f[0]); err != nil || out[f[0]] != (entry{}) {
			t.Errorf("%s: unexpected line %q", bookFile, line)
		}
		out[f[0]] = entry{f[1], f[2]}
	}
	return out
}

// sorted keeps a single file, sorted by address, by the rules that copyhold allocate keeps its own files by.
func sorted(pick func(ledger.Pool, string, map[netip.Addr]string) (netip.Addr, bool)) func(checkout, string) error {
	return func(c checkout, day string) error {
		files := c.files()
		asked, lines := requests(c.t, files), readLines(c.t, files)
		offer, found, err := catalog.Load(os.DirFS(c.dir), "catalog")
		if err != nil || found.Failed() {
			return fmt.Errorf("catalog: %v %v", err, found)
		}
		used, served := map[netip.Addr]string{}, map[string]bool{}
		for text, e := range lines {
			_, ok := asked[e.holder]
			switch {
			case e.until == "" && !ok:
				e.until = after(day, offer.Quarantine())
			case day < e.until && ok:
				e.until = ""
			}
			lines[text] = e
			served[e.holder] = served[e.holder] || e.until == ""
			if e.until == "" || day < e.until {
				used[netip.MustParseAddr(text)] = e.holder
			}
		}
		for _, holder := range slices.Sorted(maps.Keys(asked)) {
			if served[holder] {
				continue
			}
			a, ok := pick(offer.Pools[mergePool], holder, used)
			if pin := asked[holder]; pin != "" {
				a = netip.MustParseAddr(pin)
				ok = used[a] == "" && offer.Pools[mergePool].State(a) == ""
			}
			if !ok {
				return fmt.Errorf("no address %s for %s", asked[holder], holder)
			}
			used[a], lines[a.String()] = holder, entry{holder, ""}
		}
		var b strings.Builder
		for _, text := range slices.SortedFunc(maps.Keys(lines), func(a, b string) int { return netip.MustParseAddr(a).Compare(netip.MustParseAddr(b)) }) {
			fmt.Fprintln(&b, strings.TrimSpace(text+" "+lines[text].holder+" "+lines[text].until))
		}
		c.set(bookFile, b.String())
		return nil
	}
}

func lowest(p ledger.Pool, _ string, used map[netip.Addr]string) (netip.Addr, bool) {
	for _, r := range p.Ranges {
		for a := r.First; r.Contains(a); a = a.Next() {
			if used[a] == "" && p.State(a) == "" {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}

// requests are the clusters that are asked for, and the address that each pins, if any.
func requests(t *testing.T, files map[string]string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, text := range files {
		holder, ok := strings.CutPrefix(strings.TrimSuffix(name, ".yaml"), "tenants/")
		if !ok {
			continue
		}
		if !strings.Contains(text, "\n  name: "+path.Base(holder)+"\n") {
			t.Errorf("%s asks for another cluster:\n%s", name, text)
		}
		_, pin, _ := strings.Cut(text, "\n  address: ")
		out[holder], _, _ = strings.Cut(pin, "\n")
	}
	return out
}
