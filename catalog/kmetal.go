package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/strict"
)

// kmetal is a KMetal resource: what an installation of kMetal is configured with. Its API group is not public, and nothing but its
// kind and the fields below is read.
type kmetal struct {
	file   string
	doc    strict.Document
	at     []string       // of the resource in the document
	class  string         // spec.storage.underclusterClassName
	values map[string]any // of the ClusterClass chart: the passthrough over what kMetal computes from spec.storage
}

// passthrough are the fields of a KMetal resource that hold values of the ClusterClass chart.
var passthrough = []string{"spec", "clusterClass", "values"}

// underclusterClass is the StorageClass of the management cluster.
var underclusterClass = []string{"spec", "storage", "underclusterClassName"}

// computed are the chart's values that kMetal fills in from the storage class of the management cluster
// (spec.storage.underclusterClassName). The documentation says that it does, and that overriding one of the two loses the clone; that
// both are that class's name is inferred from it.
var computed = [][]string{{"dataVolume", "storageClassName"}, {"osArtifact", "storageClassName"}}

// kmetal reads the KMetal resource of a class source.
func (c *Catalog) kmetal(key string) (*kmetal, diag.List, error) {
	k := &kmetal{file: c.Dir(c.Classes[key].KMetal)}
	if info, err := fs.Stat(c.tree, k.file); err == nil && info.IsDir() {
		return nil, diag.List{diag.Errorf(c.At("classes", key, "kmetal"), "kmetal/malformed", "%s is a folder, want a file with a KMetal resource", k.file)}, nil
	}
	data, err := fs.ReadFile(c.tree, k.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, diag.List{diag.Errorf(c.At("classes", key, "kmetal"), "kmetal/missing", "there is no file %s", k.file).
			Hintf("kubectl get km -o yaml > %s", k.file)}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the KMetal resource: %w", err)
	}
	docs, found := strict.Parse(k.file, data)
	if found.Failed() {
		return nil, found, nil
	}
	if found.Add(k.choose(docs)...); found.Failed() {
		return nil, found, nil
	}
	root := dig(k.doc.Value(), k.at...)
	if len(k.at) > 0 { // of a List
		root = k.items()[0]
	}
	if found.Add(k.shape(root)...); found.Failed() {
		return nil, found, nil
	}
	over, _ := dig(root, passthrough...).(map[string]any)
	k.class = text(dig(root, underclusterClass...))
	under := map[string]any{}
	for _, p := range computed {
		if k.class != "" {
			under[p[0]] = map[string]any{p[1]: k.class}
		}
	}
	k.values = merge(under, over)
	return k, found, nil
}

// shape finds a field that is not of the kind that kMetal has there. Read as absent, it would make other classes, and replace machines.
func (k *kmetal) shape(root any) diag.List {
	has := func(p ...string) bool { return k.doc.Has(append(slices.Clone(k.at), p...)...) }
	if !has("spec") {
		return diag.List{diag.Errorf(k.place(), "kmetal/malformed", "the KMetal resource has no spec")}
	}
	for _, f := range []struct {
		path   []string
		isText bool
		want   string
	}{
		{[]string{"spec"}, false, "a mapping"},
		{[]string{"spec", "storage"}, false, "a mapping"},
		{underclusterClass, true, "the name of a StorageClass"},
		{[]string{"spec", "clusterClass"}, false, "a mapping"},
		{passthrough, false, "a mapping: values of the ClusterClass chart"},
	} {
		v := dig(root, f.path...)
		_, isMap := v.(map[string]any)
		if !has(f.path...) || !f.isText && isMap || f.isText && text(v) != "" {
			continue
		}
		return diag.List{diag.Errorf(k.place(f.path...), "kmetal/malformed", "%s is %s, want %s", strings.Join(f.path, "."), diag.JSON(v), f.want)}
	}
	return nil
}

// choose finds the one KMetal resource among the documents of a file, or in a List as kubectl prints it.
func (k *kmetal) choose(docs []strict.Document) diag.List {
	n := 0
	for _, d := range docs {
		k.doc, k.at = d, nil
		switch {
		case d.Text("kind") == "KMetal":
			n++
		case strings.HasSuffix(d.Text("kind"), "List") && k.onlyKMetals():
			n += len(k.items())
			k.at = []string{"items", "0"}
		case strings.HasSuffix(d.Text("kind"), "List"):
			return diag.List{diag.Errorf(d.At("items"), "kmetal/malformed", "a List with other than KMetal resources, want one KMetal")}
		default:
			return diag.List{diag.Errorf(d.At("kind"), "kmetal/malformed", "kind %q, want KMetal", d.Text("kind"))}
		}
	}
	if n != 1 {
		return diag.List{diag.Errorf(diag.Pos{File: k.file}, "kmetal/malformed", "%d KMetal resources, want one", n)}
	}
	return nil
}

// items are the resources of a List.
func (k *kmetal) items() []any {
	items, _ := k.doc.Value()["items"].([]any)
	return items
}

func (k *kmetal) onlyKMetals() bool {
	return !slices.ContainsFunc(k.items(), func(item any) bool { return dig(item, "kind") != "KMetal" })
}

// place is where a field of the resource stands in its file.
func (k *kmetal) place(p ...string) diag.Pos {
	return k.doc.At(append(slices.Clone(k.at), p...)...)
}

// valueAt is where the resource says a value of the ClusterClass chart, if it does.
func (k *kmetal) valueAt(p []string) (diag.Pos, bool) {
	over := append(slices.Clone(passthrough), p...)
	switch {
	case k.doc.Has(append(slices.Clone(k.at), over...)...):
		return k.place(over...), true
	case k.class != "" && slices.ContainsFunc(computed, func(c []string) bool { return slices.Equal(c, p) }):
		return k.place(underclusterClass...), true
	}
	return diag.Pos{}, false
}

// Lint finds what a class source's values do to those who use its classes. It is the platform team's to know; nothing here keeps a
// class from being used.
func (c *Catalog) Lint(key string) (diag.List, error) {
	if c.Classes[key].Chart == "" {
		return nil, nil
	}
	values, found, err := c.values(key)
	if err != nil || found.Failed() {
		return nil, err // said where the classes are loaded
	}
	at := func(p ...string) diag.Pos { return c.At(append([]string{"classes", key, "values"}, p...)...) }
	effective, class := c.effective(key, values), ""
	cloned := clones(effective)
	if c.Classes[key].KMetal != "" {
		k, _, err := c.kmetal(key)
		if err != nil {
			return nil, err
		}
		at = func(p ...string) diag.Pos { return k.place(append(slices.Clone(passthrough), p...)...) }
		if class = k.class; cloned {
			found.Add(k.lintSnapshots(at)...)
		}
	}
	if cloned {
		found.Add(lintClone(effective, class, at)...)
	}
	found.Add(c.lintImage(effective, at)...)
	return found, nil
}

// clones reports whether a tier is on whose machines boot from a volume that is cloned: all but kubeadm.
func clones(values map[string]any) bool {
	on := func(tier string) bool { return dig(values, "tiers", tier, "enabled") != false }
	return on("standard") || on("expert")
}

// lintClone finds golden images and boot volumes of two storage classes. class is the one that kMetal fills in.
func lintClone(values map[string]any, class string, at func(...string) diag.Pos) diag.List {
	var found diag.List
	boot, artifact := text(dig(values, computed[0]...)), text(dig(values, computed[1]...))
	const fullCopy = "golden images and boot volumes are then of two classes, and each new machine waits for a full copy in place of a clone"
	switch {
	case boot == "" || artifact == "" || boot == artifact:
	case class == "":
		found.Add(diag.Warnf(at(computed[0]...), "storage/no-clone", "dataVolume.storageClassName %q and osArtifact.storageClassName %q: %s", boot, artifact, fullCopy))
	default:
		for _, p := range computed {
			if v := text(dig(values, p...)); v != class {
				found.Add(diag.Warnf(at(p...), "storage/no-clone", "%s %q overrides %q of spec.storage.underclusterClassName: %s", strings.Join(p, "."), v, class, fullCopy).
					Hintf("remove it here: kMetal follows spec.storage.underclusterClassName by itself"))
			}
		}
	}
	return found
}

// lintSnapshots finds that golden images are not snapshotted, which boot volumes are cloned from.
func (k *kmetal) lintSnapshots(at func(...string) diag.Pos) diag.List {
	if text(dig(k.values, "dataVolume", "volumeSnapshotClass")) != "" {
		return nil
	}
	return diag.List{diag.Warnf(at("dataVolume"), "storage/no-snapshot-class",
		"no dataVolume.volumeSnapshotClass, which has no default since chart v1.10.0: golden images are not snapshotted, so no boot volume can be cloned from one").
		Hintf("name a VolumeSnapshotClass with the driver of spec.storage.underclusterClassName")}
}

// lintImage compares the one container disk that all clusters of the kubeadm tier boot with the versions on offer.
func (c *Catalog) lintImage(values map[string]any, at func(...string) diag.Pos) diag.List {
	tag := text(dig(values, "kubeadm", "containerDisk", "tag"))
	if on, _ := dig(values, "tiers", "kubeadm", "enabled").(bool); !on || tag == "" {
		return nil
	}
	place := at("kubeadm", "containerDisk", "tag")
	if !slices.Contains(c.Versions, tag) {
		return diag.List{diag.Warnf(place, "image/unknown-version", "containerDisk tag %q is not among the catalog's versions: all machines of the tier boot a kubelet of it, whatever version their cluster asks for%s", tag, diag.OneOf(c.Versions)).
			Hintf("the tag must equal the version that clusters ask for")}
	}
	var others []string
	for _, v := range c.Versions {
		if v != tag {
			others = append(others, v)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return diag.List{diag.Warnf(place, "image/one-version", "containerDisk tag %q is what all machines of the tier boot: clusters that ask for %s get workers of %s", tag, strings.Join(others, " or "), tag).
		Hintf("the tag must equal the version that clusters ask for: offer that one alone, or leave the tag to the version")}
}
