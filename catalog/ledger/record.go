// Package ledger holds what the tenants repository remembers: which address belongs to whom, and the defaults each cluster was
// admitted with. It is pure: files and dates come in as values, and rendering never changes it.
//
// A Record is one cluster's entry. Render reads records and nothing else of the ledger.
package ledger

import (
	"net/netip"
	"path"
	"regexp"

	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/strict"
)

// APIVersion and KindRecord head a cluster's record.
const (
	APIVersion = "copyhold.dev/v1alpha1"
	KindRecord = "ClusterRecord"
)

// Record is what the ledger knows of one cluster, in ledger/clusters/<namespace>/<name>.yaml.
type Record struct {
	Namespace string
	Name      string
	RecordSpec
	doc strict.Document
}

// RecordSpec is the body of a record.
type RecordSpec struct {
	AddressPool   string            `json:"addressPool,omitempty"`   // the address pool that Address was taken from
	Address       string            `json:"address,omitempty"`       // of the control plane
	ServerAddress string            `json:"serverAddress,omitempty"` // in the cluster's subnet
	ServerPool    string            `json:"serverPool,omitempty"`    // the subnet that ServerAddress was taken from: namespace.subnet
	Class         string            `json:"class,omitempty"`         // namespace/name of the ClusterClass that Defaults are of
	Defaults      map[string]any    `json:"defaults,omitempty"`      // variable defaults at admission; topology.Defaults says how they are keyed
	Rollouts      map[string]string `json:"rollouts,omitempty"`      // rollout hash of each worker pool that somebody has accepted
	Reason        string            `json:"reason,omitempty"`        // why the last one was accepted, in the words of who did
	Released      Date              `json:"released,omitempty"`      // the cluster is gone since that day; the record says what it had
}

type recordFile struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   recordMetadata `json:"metadata"`
	Spec       RecordSpec     `json:"spec"`
}

type recordMetadata struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Holder is namespace/name, as locks name it.
func (r *Record) Holder() string { return r.Namespace + "/" + r.Name }

// At is the place of the value under a path of the record, or of the deepest part of the path that is written. A record that was not
// read from a file has no place.
func (r *Record) At(p ...string) diag.Pos {
	if r.doc.File == "" {
		return diag.Pos{}
	}
	return r.doc.At(p...)
}

// ParseRecord reads a record. A record that does not match its own path is an error: it would speak for another cluster.
func ParseRecord(file string, data []byte) (*Record, diag.List) {
	docs, found := strict.Parse(file, data)
	if found.Failed() {
		return nil, conflicted(file, data, "two branches changed one cluster", found)
	}
	if len(docs) != 1 {
		found.Add(diag.Errorf(diag.Pos{File: file}, "ledger/malformed", "%d documents, want one %s", len(docs), KindRecord).
			Hintf("restore the file from Git"))
		return nil, found
	}
	d := docs[0]
	var f recordFile
	if found.Add(d.Decode("ledger", &f)...); found.Failed() {
		return nil, found
	}
	r := &Record{Namespace: f.Metadata.Namespace, Name: f.Metadata.Name, RecordSpec: f.Spec, doc: d.Lean()}
	if f.APIVersion != APIVersion || f.Kind != KindRecord {
		found.Add(diag.Errorf(d.At("kind"), "ledger/malformed", "%s %s, want %s %s", f.APIVersion, f.Kind, APIVersion, KindRecord))
	}
	if want := path.Base(path.Dir(file)) + "/" + trimYAML(path.Base(file)); r.Namespace+"/"+r.Name != want {
		found.Add(diag.Errorf(d.At("metadata"), "ledger/wrong-place", "the record speaks of %s/%s, but its file is that of %s", r.Namespace, r.Name, want).
			Hintf("restore the file from Git"))
	}
	for _, field := range []string{"address", "serverAddress"} {
		text := map[string]string{"address": r.Address, "serverAddress": r.ServerAddress}[field]
		if text == "" {
			continue
		}
		if a, err := netip.ParseAddr(text); err != nil || a.String() != text || a.Zone() != "" || a.Is4In6() {
			found.Add(diag.Errorf(d.At("spec", field), "ledger/malformed", "%s %q, want an IP address in its shortest form", field, text))
		}
	}
	// A pool's name is part of a path that allocate writes to.
	for _, pool := range []struct{ field, name string }{{"addressPool", r.AddressPool}, {"serverPool", r.ServerPool}} {
		if pool.name != "" && !poolName.MatchString(pool.name) {
			found.Add(diag.Errorf(d.At("spec", pool.field), "ledger/malformed", "%s %q, want the name of a pool", pool.field, pool.name))
		}
	}
	for pool, hash := range r.Rollouts {
		if !rolloutHash.MatchString(hash) {
			found.Add(diag.Errorf(d.At("spec", "rollouts", pool), "ledger/malformed", "rollout hash %q, want one as v1:0123456789abcdef", hash).
				Hintf("restore the file from Git; copyhold ack writes hashes"))
		}
	}
	if r.Released != "" && !validDate(r.Released) {
		found.Add(diag.Errorf(d.At("spec", "released"), "ledger/malformed", "released %q, want a day as 2026-12-01", r.Released))
	}
	return r, found
}

// poolName is an address pool's name, or namespace.subnet.
var poolName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`)

// rolloutHash is a scheme and a digest (topology.Hashes).
var rolloutHash = regexp.MustCompile(`^(unknown-)?v[1-9][0-9]*:[0-9a-f]{16}$`)

func trimYAML(name string) string {
	if ext := path.Ext(name); ext == ".yaml" {
		return name[:len(name)-len(ext)]
	}
	return name
}

// FormatRecord is the inverse of ParseRecord: the same record always gives the same bytes.
func FormatRecord(r *Record) ([]byte, error) {
	return strict.Marshal(recordFile{
		APIVersion: APIVersion,
		Kind:       KindRecord,
		Metadata:   recordMetadata{Namespace: r.Namespace, Name: r.Name},
		Spec:       r.RecordSpec,
	})
}
