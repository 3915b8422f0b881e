package cmd

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

func (a *app) catalogVerifyCommand() *cobra.Command {
	var live string
	c := &cobra.Command{
		Use:   "verify --live FILE",
		Short: "compare the classes that run with the vendored ones",
		Long: `verify reads ClusterClasses and templates as kubectl prints them, and finds every difference from the classes in the catalog that
Cluster API would act on. It answers whether the class that copyhold renders and predicts with is the class that runs.
What an API server adds to an object does not count.`,
		Example: `  kubectl get clusterclasses.v1beta2.cluster.x-k8s.io,kamajicontrolplanetemplates,kubevirtclustertemplates,kubevirtmachinetemplates,kubeadmconfigtemplates \
    -n kmetal-capi-providers -o yaml | copyhold catalog verify --live -`,
		Args: exactly(0, "none"),
		RunE: func(*cobra.Command, []string) error {
			if live == "" {
				return usageError{fmt.Errorf("no --live, want a file, or - for stdin"), "copyhold catalog verify --help"}
			}
			return a.catalogVerify(live)
		},
	}
	c.Flags().StringVar(&live, "live", "", "file with the live ClusterClasses and templates, - for stdin")
	return c
}

// verified is one ClusterClass of the catalog, held against the one that runs.
type verified struct {
	key            topology.Key
	tiers          []string
	digest, result string
	found          diag.List
}

func (a *app) catalogVerify(file string) error {
	t, _, err := a.repository(nil)
	if err != nil {
		return err
	}
	defer t.close()
	live, found, err := a.readLive(file)
	if err != nil {
		return err
	}
	if err := a.print(found); err != nil {
		return err
	}
	in, found, err := render.Offer(t)
	if err != nil {
		return err
	}
	if in == nil || in.Catalog == nil {
		return a.print(found)
	}
	classes, more, err := a.verify(t, in, live, diag.Pos{File: file})
	if err != nil {
		return err
	}
	found.Add(more...)
	if len(classes) == 0 && !found.Failed() {
		a.say("no tier has a ClusterClass: there is nothing to compare")
		return a.print(found)
	}
	found.Add(nothingLive(classes, live, diag.Pos{File: file})...)
	if err := a.print(found); err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CLASS\tTIERS\tLIVE\tVENDORED DIGEST")
	var all diag.List
	for _, v := range classes {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", v.key, strings.Join(v.tiers, " "), v.result, v.digest)
		all.Add(v.found...)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return a.print(all)
}

// nothingLive finds that what was read has no ClusterClass, while one should run: nothing was compared then, whatever runs.
func nothingLive(classes []*verified, live []*manifest.Object, at diag.Pos) diag.List {
	expected := slices.ContainsFunc(classes, func(v *verified) bool { return v.result != "off" })
	if !expected || slices.ContainsFunc(live, func(o *manifest.Object) bool { return o.GetKind() == "ClusterClass" }) {
		return nil
	}
	what := "what was read is empty"
	if len(live) > 0 {
		what = fmt.Sprintf("what was read has other objects, such as %s", manifest.IDOf(live[0]))
	}
	return diag.List{diag.Errorf(at, "live/empty", "there is no ClusterClass to compare with: %s", what).
		Hintf("copyhold catalog verify --help says what to export; a look that is not allowed prints nothing, too")}
}

// readLive reads what kubectl printed.
func (a *app) readLive(file string) ([]*manifest.Object, diag.List, error) {
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(a.stdin)
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the live classes: %w", err)
	}
	objects, err := manifest.Parse(data)
	if err == nil {
		_, err = manifest.New(objects...)
	}
	if err != nil {
		return nil, diag.List{diag.Errorf(diag.Pos{File: file}, "live/unreadable", "%v", err)}, nil
	}
	return objects, nil, nil
}

// verify holds the class of every tier against the live one, each class once. The findings are about the catalog.
func (a *app) verify(t *tree, in *render.Input, live []*manifest.Object, at diag.Pos) ([]*verified, diag.List, error) {
	var out []*verified
	var found diag.List
	byKey := map[topology.Key]*verified{}
	for _, name := range catalog.Sorted(in.Catalog.Tiers) {
		tier := in.Catalog.Tiers[name]
		if tier.Chart != "" { // nothing of it runs but the clusters
			continue
		}
		key := topology.Key{Namespace: in.Catalog.Classes[tier.From].Namespace, Name: tier.Class}
		if v := byKey[key]; v != nil {
			v.tiers = append(v.tiers, name)
			continue
		}
		class, bad, err := render.Class(t, in, name)
		if err != nil {
			return nil, nil, err
		}
		found.Add(bad...)
		if class == nil {
			continue
		}
		vendored, bad, err := in.Catalog.ClassObjects(tier.From)
		if err != nil {
			return nil, nil, err
		}
		found.Add(bad...)
		v := &verified{key: key, tiers: []string{name}, digest: class.Digest()}
		v.compare(in.Catalog.Withdrawn(tier.From)[tier.Class], vendored, live, at)
		byKey[key] = v
		out = append(out, v)
	}
	return out, found, nil
}

// compare fills in the result.
func (v *verified) compare(withdrawn bool, vendored, live []*manifest.Object, at diag.Pos) {
	there := slices.ContainsFunc(live, func(o *manifest.Object) bool {
		return o.GetKind() == "ClusterClass" && o.GetNamespace() == v.key.Namespace && o.GetName() == v.key.Name
	})
	switch {
	case withdrawn && there:
		v.found.Add(diag.Errorf(at, "live/differs", "ClusterClass %s is there, but the values of its class source switch it off", v.key))
	case withdrawn:
		v.result = "off"
		return
	default:
		v.found = catalog.CompareLive(at, vendored, live, v.key.Namespace, v.key.Name)
	}
	if v.result = "same content"; v.found.Failed() {
		v.result = "differs"
		return
	}
	// Names, labels and annotations are in the digest, and in nothing that Cluster API compares.
	if running, problems, err := topology.NewClass(live, v.key); err == nil && len(problems) == 0 && running.Digest() == v.digest {
		v.result = "same"
	}
}
