package gate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/topology"
)

// Verdict is what a sync would do to the machines of a worker pool, or to a cluster.
type Verdict string

// The verdicts, worst first.
const (
	ClusterGoes Verdict = "CLUSTER GOES" // a sync with prune deletes the Cluster
	PoolGoes    Verdict = "POOL GOES"    // a worker pool is no longer asked for
	WillRoll    Verdict = "WILL ROLL"    // all machines of the pool are replaced
	Unknown     Verdict = "UNKNOWN"      // nobody can tell
)

var verdicts = []Verdict{ClusterGoes, PoolGoes, WillRoll, Unknown}

// Outcome is a verdict that somebody should know of.
type Outcome struct {
	Verdict Verdict
	Cluster *LiveCluster
	Pool    string // empty: the Cluster itself
	Count   int64  // machines
	Counted bool   // their number is known
	Causes  []string
	Held    string // why it does not happen yet
}

// Report is what a sync would do.
type Report struct {
	Wanted   Wanted
	Live     Live
	Outcomes []Outcome // by verdict, cluster and pool
	Fresh    []string  // clusters that are to be created
	Same     int       // worker pools that stay as they are
	Come     []string  // worker pools that are new, namespace/name pool
	Notes    []string
}

// Compare says what syncing the application does to what runs.
func Compare(w Wanted, l Live) Report {
	r := Report{Wanted: w, Live: l}
	if l.NoAPI {
		for _, c := range w.Clusters {
			r.Fresh = append(r.Fresh, c.Cluster)
		}
		return r
	}
	asked := map[string]bool{}
	for _, name := range w.Beside {
		asked[name] = true
	}
	for _, c := range w.Clusters {
		asked[c.Cluster] = true
		r.cluster(c)
	}
	for _, name := range catalog.Sorted(l.Clusters) {
		if !asked[name] {
			r.unasked(l.Clusters[name])
		}
	}
	for _, c := range w.Classes {
		r.class(c)
	}
	rank := func(v Verdict) int { return slices.Index(verdicts, v) }
	slices.SortStableFunc(r.Outcomes, func(a, b Outcome) int {
		return cmp.Or(cmp.Compare(rank(a.Verdict), rank(b.Verdict)), strings.Compare(a.Cluster.String(), b.Cluster.String()), strings.Compare(a.Pool, b.Pool))
	})
	return r
}

// String is namespace/name.
func (c *LiveCluster) String() string { return c.Namespace + "/" + c.Name }

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

func (r *Report) cluster(want Cluster) {
	live := r.Live.Clusters[want.Cluster]
	ns, _, _ := strings.Cut(want.Cluster, "/")
	switch {
	case live == nil && r.Live.Unseen[ns]: // said once for the namespace
		return
	case live == nil:
		if !want.Unread {
			r.Fresh = append(r.Fresh, want.Cluster)
		}
		return
	case live.Deleting:
		r.note("%s is being deleted: nothing of it is compared, and this sync does not keep it", live)
		return
	case want.Unread:
		r.outcome(Outcome{Verdict: Unknown, Cluster: live, Causes: []string{"its request, or its record in the ledger, has an error: its own application says which"}})
		return
	}
	if !live.Ours && !r.Wanted.Platform {
		r.note("%s was not made by copyhold: this sync takes it over", live)
	}
	all := map[string]bool{}
	for pool := range want.Pools {
		all[pool] = true
	}
	for _, pool := range live.Pools {
		all[pool] = true
	}
	for _, pool := range catalog.Sorted(all) {
		r.pool(want, live, pool)
	}
	for _, pool := range catalog.Sorted(live.Hashes) {
		if !all[pool] {
			r.note("%s has the rollout hash of a worker pool %s that it does not have: passed over", live, pool)
		}
	}
}

func (r *Report) pool(want Cluster, live *LiveCluster, pool string) {
	_, asked := want.Pools[pool]
	there := slices.Contains(live.Pools, pool) || live.Class == "" && len(live.Pools) == 0 // without hashes nobody knows which there are
	switch {
	case r.Wanted.Platform && asked != there: // another application's to bring and to take away
	case !there:
		r.Come = append(r.Come, live.String()+" "+pool)
	case !asked:
		r.outcome(Outcome{Verdict: PoolGoes, Cluster: live, Pool: pool, Causes: []string{"no request in Git asks for it any more; its machines do not wait for others"}})
	default:
		r.judge(want, live, pool)
	}
}

// judge compares a pool that is there and asked for.
func (r *Report) judge(want Cluster, live *LiveCluster, pool string) {
	p, has := want.Pools[pool], live.Hashes[pool]
	class := r.Wanted.class(want.Class)
	changed, known := r.Live.differs(class)
	vendored := class == nil || known && len(changed) == 0 // a class that is vendored nowhere is not held against anything
	o := Outcome{Cluster: live, Pool: pool}
	switch {
	case r.Wanted.Platform && known && len(changed) == 0: // this sync does not change the class
		r.Same++
		return
	case topology.Comparable(live.Made[pool], p.Hash) && live.Made[pool] == p.Hash: // the class changes, and not for this pool
		r.Same++
		return
	case topology.Comparable(live.Made[pool], p.Hash):
		o.Verdict = WillRoll
		o.Causes = append(r.causes(want, live, pool, class, changed, known), accepted(p))
	case topology.Comparable(has, p.Hash) && has == p.Hash && (!r.Wanted.Platform || class == nil):
		r.Same++
		return
	case topology.Comparable(has, p.Hash) && has == p.Hash:
		o.Verdict = Unknown
		o.Causes = append([]string{"its Cluster has the wanted hash already, so whether its machines were made by this class or are still to be replaced cannot be told from here"}, r.classCause(class, changed, known)...)
	case topology.Comparable(has, p.Hash):
		o.Verdict = WillRoll
		o.Causes = append(r.causes(want, live, pool, class, changed, known), accepted(p))
		if !r.Wanted.Platform && known && len(changed) > 0 && live.Parts != nil && len(own(differing(want.Parts, live.Parts), pool)) == 0 {
			o.Held = "it starts when the platform application syncs the class"
		}
	default:
		other := own(differing(want.Parts, live.Parts), pool)
		if live.Parts != nil && len(other) == 0 && vendored {
			r.Same++
			return
		}
		o.Verdict = Unknown
		o.Causes = append(append([]string{scheme(has, p.Hash)}, r.causes(want, live, pool, class, changed, known)...), accepted(p))
	}
	r.outcome(o)
}

// scheme says why two hashes say nothing about each other.
func scheme(has, want string) string {
	switch {
	case want == "":
		return "its class reads what only the management cluster knows, so there is no rollout hash"
	case has == "":
		return "its Cluster carries no rollout hash yet"
	}
	return fmt.Sprintf("its rollout hash %s is of another scheme than %s", shown(has), want)
}

// shown is a text of a live object, which anybody may have written, for a message.
func shown(s string) string {
	const most = 40
	if len(s) > most || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) }) {
		cut := strings.ToValidUTF8(s[:min(len(s), most)], "")
		return strconv.Quote(cut) + strings.Repeat("...", min(1, len(s)-len(cut)))
	}
	return s
}

func orChart(class string) string {
	if class == "" {
		return "none, a chart"
	}
	return class
}

// accepted says what the ledger has of the wanted hash.
func accepted(p Pool) string {
	switch p.Accepted {
	case Accepted:
		return "accepted in the ledger"
	case NotAccepted:
		return "NOT accepted in the ledger"
	}
	return "the ledger has no hash of the pool"
}

// causes are what differs between what runs and what is wanted, as far as it bears on a pool.
func (r *Report) causes(want Cluster, live *LiveCluster, pool string, class *Class, changed []string, known bool) []string {
	var out []string
	if want.Class == "" && live.Class == "" {
		return []string{"the chart of its tier makes it otherwise: copyhold diff says from what"}
	}
	if live.Version != want.Version {
		out = append(out, fmt.Sprintf("version %s -> %s", shown(live.Version), want.Version))
	}
	if live.Class != want.Class {
		out = append(out, fmt.Sprintf("class %s -> %s", orChart(live.Class), orChart(want.Class)))
	}
	switch parts := without(own(differing(want.Parts, live.Parts), pool), "version", "class"); {
	case want.Class == "" || live.Class == "": // nothing to compare part by part
	case live.Parts == nil:
		out = append(out, "its spec.topology does not read")
	case len(parts) > 0:
		out = append(out, "the Cluster changes in "+some(parts))
	}
	out = append(out, r.classCause(class, changed, known)...)
	if len(out) == 0 {
		out = []string{"neither its Cluster nor its class differs: another release of copyhold rendered it, or somebody changed the annotation"}
	}
	return out
}

func (r *Report) classCause(class *Class, changed []string, known bool) []string {
	switch {
	case class == nil:
		return nil
	case !known:
		return []string{fmt.Sprintf("ClusterClass %s could not be looked at", class.Class)}
	case r.Live.Classes[class.Class].Missing:
		return []string{fmt.Sprintf("ClusterClass %s is not there", class.Class)}
	case len(changed) == 0:
		return nil
	case r.Wanted.Platform:
		return []string{fmt.Sprintf("ClusterClass %s changes in %s", class.Class, some(changed))}
	}
	return []string{fmt.Sprintf("ClusterClass %s runs with another %s; the platform application's sync changes that", class.Class, some(changed))}
}

// unasked is a Cluster that nobody asks for in what was rendered.
func (r *Report) unasked(live *LiveCluster) {
	if r.Wanted.Platform {
		changed, known := r.Live.differs(r.Wanted.class(live.Class))
		if r.Wanted.class(live.Class) != nil && (!known || len(changed) > 0) && !live.Deleting {
			r.outcome(Outcome{Verdict: Unknown, Cluster: live, Causes: append([]string{"no request of this repository that reads asks for it"}, r.classCause(r.Wanted.class(live.Class), changed, known)...)})
		}
		return
	}
	if !live.Ours {
		return
	}
	if live.Deleting {
		r.note("%s is being deleted, and no request asks for it", live)
		return
	}
	r.outcome(Outcome{Verdict: ClusterGoes, Cluster: live, Causes: []string{"no request in Git asks for it; pruning waits for a confirmation"}})
}

// class notes a class that runs as another than the vendored one.
func (r *Report) class(c Class) {
	changed, known := r.Live.differs(&c)
	live := r.Live.Classes[c.Class]
	verb := "runs with another"
	if r.Wanted.Platform {
		verb = "changes in"
	}
	switch {
	case live.Unknown != "":
		r.note("ClusterClass %s: %s", c.Class, live.Unknown)
	case live.Missing && r.Wanted.Platform:
		r.note("ClusterClass %s is not there yet", c.Class)
	case live.Missing:
		r.note("ClusterClass %s is not there: the platform application, or whoever installs classes, brings it", c.Class)
	case known && len(changed) > 0:
		r.note("ClusterClass %s %s %s", c.Class, verb, some(changed))
	}
}

// outcome counts machines and says what keeps them for now.
func (r *Report) outcome(o Outcome) {
	if o.Pool != "" {
		if m := o.Cluster.Machines[o.Pool]; m != nil {
			o.Count, o.Counted = m.Count, true
			if m.Rolling {
				o.Causes = append(o.Causes, "some of its machines are being replaced already")
			}
		}
	} else {
		o.Counted = len(o.Cluster.Machines) > 0 || len(o.Cluster.Pools) == 0
		for _, m := range o.Cluster.Machines {
			o.Count += m.Count
		}
	}
	if o.Cluster.Paused {
		o.Held = "the Cluster is paused: it happens when it no longer is"
	}
	r.Outcomes = append(r.Outcomes, o)
}

// own leaves out the parts of other worker pools.
func own(parts []string, pool string) []string {
	return slices.DeleteFunc(parts, func(p string) bool { return strings.HasPrefix(p, "workers[") && p != "workers["+pool+"]" })
}

func without(list []string, words ...string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return slices.Contains(words, s) })
}

// some are the first of many words.
func some(words []string) string {
	const most = 4
	if len(words) <= most {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:most], ", "), len(words)-most)
}
