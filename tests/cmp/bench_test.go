package cmp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// thousand is a repository of 1,000 tenants with a cluster each, and one tenant with twenty.
func thousand(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	run(t, root, copyhold, "init", root)
	edit(t, root, "catalog/catalog.yaml", "[172.21.208.100-172.21.208.199]", "[198.18.0.0/16]")
	request := func(ns, name string) {
		write(t, root, "tenants/"+ns+"/"+name+".yaml", "apiVersion: copyhold.dev/v1alpha1\nkind: ClusterRequest\nmetadata: {name: "+name+"}\nspec: {tier: kubeadm, version: v1.34.1, subnet: production, workers: {md-0: {replicas: 2, size: small}}}\n")
	}
	for i := range 999 {
		request(fmt.Sprintf("tenant-%03d", i), "solar")
	}
	for i := range 20 {
		request("photon-prod", fmt.Sprintf("solar-%02d", i))
	}
	run(t, root, copyhold, "allocate")
	return root
}

// BenchmarkThousandTenants is generate for one tenant's folder of a repository of 1,000 tenants, through the real server, and in turn a
// plugin that only runs cat. What the two have in common is Argo CD's: packing the repository, sending it, unpacking it, which takes
// most of the time and varies most. So the share of copyhold is the median of the differences, and stands beside the command's own time
// in the same folder. All of it in milliseconds.
func BenchmarkThousandTenants(b *testing.B) {
	root := thousand(b)
	cat, err := newServer("cat", []byte("apiVersion: argoproj.io/v1alpha1\nkind: ConfigManagementPlugin\nmetadata: {name: cat}\nspec: {generate: {command: [/bin/cat, ../../rendered.yaml]}}\n"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { cat.stop() })
	if err := cat.run(cat.command()); err != nil {
		b.Fatal(err)
	}
	ours := sidecar(b)
	for _, path := range []string{"tenants/tenant-500", "tenants/photon-prod"} {
		write(b, root, "rendered.yaml", string(run(b, root, copyhold, "render", path)))
		c := call{root: root, path: path, env: appEnv(), exclude: []string{".git"}}
		b.Run(strings.TrimPrefix(path, "tenants/"), func(b *testing.B) {
			var with, without, share, alone []time.Duration
			for b.Loop() {
				x := timed(func() { generating(b, cat, c) })
				y := timed(func() { generating(b, ours, c) })
				with, without, share = append(with, y), append(without, x), append(share, y-x)
				alone = append(alone, timed(func() { run(b, c.app(), copyhold, "plugin", "generate") }))
			}
			for unit, all := range map[string][]time.Duration{"ms-copyhold": with, "ms-cat": without, "ms-share": share, "ms-alone": alone} {
				slices.Sort(all)
				b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, unit)
			}
			b.ReportMetric(0, "ns/op") // of all three together: it means nothing
		})
	}
}

func timed(do func()) time.Duration {
	started := time.Now()
	do()
	return time.Since(started)
}

func generating(b *testing.B, s *pluginServer, c call) {
	b.Setenv("ARGOCD_PLUGINSOCKFILEPATH", s.sockets())
	if got, err := s.generate(b.Context(), c); err != nil || len(got) == 0 {
		b.Fatalf("%v, %d objects", err, len(got))
	}
}
