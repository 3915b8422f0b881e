// Command bench measures the real copyhold command on fleets that it makes: wall time, CPU time and peak memory of whole processes.
// It is a benchmark, not a test: nothing fails when a machine is slow. Compare figures of one run only; machines are noisy.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	copyhold := flag.String("copyhold", "copyhold", "the command to measure")
	rounds := flag.Int("rounds", 5, "runs of each case; the table shows the median")
	flag.Parse()
	if err := run(*copyhold, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(copyhold string, rounds int) error {
	bin, err := filepath.Abs(copyhold)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "copyhold-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fleet := filepath.Join(dir, "fleet")
	if err := os.CopyFS(fleet, os.DirFS("examples/fleet")); err != nil {
		return err
	}
	thousand := filepath.Join(dir, "thousand")
	if err := makeFleet(bin, thousand, 20, 50, true); err != nil {
		return err
	}
	if err := allocated(bin, thousand); err != nil {
		return err
	}
	ten := filepath.Join(dir, "ten-thousand")
	if err := makeFleet(bin, ten, 100, 100, false); err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "case\twall ms\tCPU ms\tpeak MiB\t")
	for _, c := range []struct {
		name   string
		args   []string
		before func() error
	}{
		{"version (start to exit)", []string{"version"}, nil},
		{"render one tenant folder of the fleet", []string{"render", "--root", fleet, filepath.Join(fleet, "tenants/photon-prod")}, nil},
		{"render the fleet, 13 clusters", []string{"render", "--root", fleet}, nil},
		{"render 1,000 clusters", []string{"render", "--root", thousand}, nil},
		{"render one of 20 tenant folders, 50 clusters", []string{"render", "--root", thousand, filepath.Join(thousand, "tenants/tenant-07")}, nil},
		{"allocate 10,000 clusters in an empty /16", []string{"allocate", "--root", ten}, func() error { return os.RemoveAll(filepath.Join(ten, "ledger")) }},
		{"allocate again, nothing to do", []string{"allocate", "--root", ten}, nil},
		{"check 10,000 clusters and their ledger", []string{"check", "--root", ten}, nil},
		{"diff: one changed request in 10,000 clusters", []string{"diff", "--root", ten}, func() error { return change(ten, "tenants/tenant-07/cluster-007.yaml", "replicas: 3", "replicas: 4") }},
		{"diff: an edit of the class of 1,000 clusters of 20 shapes", []string{"diff", "--root", thousand}, func() error {
			return change(thousand, "catalog/classes/kmetal/values.yaml", "small: {cores: 2", "small: {cores: 3")
		}},
	} {
		m, err := median(bin, c.args, rounds, c.before)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t\n", c.name, m.wall.Milliseconds(), m.cpu.Milliseconds(), m.peak>>10)
	}
	return w.Flush()
}

type measure struct {
	wall, cpu time.Duration
	peak      int64 // KiB
}

func median(bin string, args []string, rounds int, before func() error) (measure, error) {
	var all []measure
	for range rounds {
		if before != nil {
			if err := before(); err != nil {
				return measure{}, err
			}
		}
		c := exec.Command(bin, args...)
		var stderr bytes.Buffer
		c.Stderr = &stderr
		start := time.Now()
		if err := c.Run(); err != nil {
			return measure{}, fmt.Errorf("%w\n%s", err, stderr.String())
		}
		u := c.ProcessState.SysUsage().(*syscall.Rusage)
		all = append(all, measure{time.Since(start), c.ProcessState.UserTime() + c.ProcessState.SystemTime(), u.Maxrss})
	}
	slices.SortFunc(all, func(a, b measure) int { return int(a.wall - b.wall) })
	return all[len(all)/2], nil
}

// makeFleet makes a repository with the built-in catalog, an address pool of a /16, and clusters of a few shapes, each with an
// address of its own or with none yet.
func makeFleet(bin, dir string, tenants, each int, pinned bool) error {
	if out, err := exec.Command(bin, "init", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("init: %w\n%s", err, out)
	}
	catalog := filepath.Join(dir, "catalog/catalog.yaml")
	data, err := os.ReadFile(catalog)
	if err != nil {
		return err
	}
	data = bytes.Replace(data, []byte("[172.21.208.100-172.21.208.199]"), []byte("[198.18.0.0/16]"), 1)
	if err := os.WriteFile(catalog, data, 0o644); err != nil {
		return err
	}
	n := 0
	for t := range tenants {
		folder := filepath.Join(dir, "tenants", fmt.Sprintf("tenant-%02d", t))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for c := range each {
			shape := n % 20
			pin := ""
			if pinned {
				pin = fmt.Sprintf("  address: 198.18.%d.%d\n", n/250, n%250+1)
			}
			request := fmt.Sprintf(`apiVersion: copyhold.dev/v1alpha1
kind: ClusterRequest
metadata: {name: cluster-%03d}
spec:
  tier: kubeadm
  version: %s
  subnet: net-%02d
%s  workers:
    md-0: {replicas: %d, size: %s}
`, c, []string{"v1.33.5", "v1.34.1"}[shape%2], shape, pin, n%5+1, []string{"small", "medium", "large"}[shape%3])
			n++
			if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("cluster-%03d.yaml", c)), []byte(request), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// allocated gives the clusters of a fleet their places in the ledger.
func allocated(bin, dir string) error {
	if out, err := exec.Command(bin, "allocate", "--root", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("allocate: %w\n%s", err, out)
	}
	return nil
}

// change commits a fleet once, and edits one of its files.
func change(dir, file, from, to string) error {
	name := filepath.Join(dir, file)
	if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
		return nil // done before the first round
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=copyhold", "-c", "user.email=copyhold@example.org", "commit", "-q", "-m", "base"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w\n%s", args[0], err, out)
		}
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !bytes.Contains(data, []byte(from)) {
		return fmt.Errorf("%s does not hold %q", file, from)
	}
	return os.WriteFile(name, bytes.Replace(data, []byte(from), []byte(to), 1), 0o644)
}
