package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/plugin"
	"copyhold.dev/copyhold/render/gate"
)

// gateOptions are the flags of copyhold gate.
type gateOptions struct {
	wanted, digest, kubeconfig string
	patience, deadline         time.Duration
}

func (a *app) gateCommand() *cobra.Command {
	var o gateOptions
	c := &cobra.Command{
		Use:   "gate --wanted FILE",
		Short: "say what a sync does to the machines that run",
		Long: `gate compares what an application wants with the management cluster: which worker pools would roll, with how many machines and why,
which pools and Clusters are no longer asked for, and which ClusterClasses run as others than the vendored ones. It prints that, and
writes a Warning Event beside each Cluster that it is about. Nothing else is changed.

It runs as the PreSync hook that render prints when the catalog has a gate; what is wanted is in the ConfigMaps beside the hook.
It is advisory: a rollout that it finds is no error. What holds a rollout back is policy.rollouts: acknowledge.

Exit codes: 0 it looked, whatever it found, or an Event says what it could not look at; 2 wrong usage; 3 it could not look, or what is
wanted does not read. Where the policy is acknowledge, to look nowhere is 3 even with an Event.`,
		Example: `  copyhold gate --wanted /wanted
  copyhold render tenants/photon-prod -o json |
    jq -r '.items[] | select(.kind == "ConfigMap").data[]' | copyhold gate --wanted - --kubeconfig ~/.kube/config`,
		Args: exactly(0, "none"),
		RunE: func(c *cobra.Command, _ []string) error { return a.gate(c.Context(), o) },
	}
	c.Flags().StringVar(&o.wanted, "wanted", "", "what is wanted: a file, a folder whose files are one after the other, or - for stdin")
	c.Flags().StringVar(&o.digest, "digest", "", "sha256 of what is wanted, which is refused when it has another")
	c.Flags().StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the management cluster (default: as a pod in it)")
	c.Flags().DurationVar(&o.patience, "patience", time.Minute, "how long an API server that does not answer is asked again")
	c.Flags().DurationVar(&o.deadline, "deadline", time.Duration((&catalog.Gate{}).RunSeconds())*time.Second, "how long all of it may take; the hook has four fifths of its Job's deadline")
	return c
}

func (a *app) gate(ctx context.Context, o gateOptions) error {
	if o.wanted == "" {
		return usageError{errors.New("no --wanted, want a file, a folder, or - for stdin"), "copyhold gate --help"}
	}
	if o.patience < 0 {
		return usageError{fmt.Errorf("patience %s, want 0 or more", o.patience), "copyhold gate --help"}
	}
	if o.deadline <= 0 {
		return usageError{fmt.Errorf("deadline %s, want more than 0", o.deadline), "copyhold gate --help"}
	}
	text, err := a.readWanted(o.wanted)
	if err != nil {
		return fmt.Errorf("reading what is wanted: %w", err)
	}
	if sum := gate.Sum(text); o.digest != "" && o.digest != sum {
		return fmt.Errorf("what is wanted has digest %s, want %s: the ConfigMaps beside the hook are of another sync, or not all of them are there", sum, o.digest)
	}
	wanted, err := gate.Read(text)
	if err != nil {
		return fmt.Errorf("reading what is wanted: %w", err)
	}
	config, err := o.config()
	if err != nil {
		return err
	}
	api, err := plugin.NewAPI(config)
	if err != nil {
		return fmt.Errorf("reaching the management cluster: %w", err)
	}
	if ctx == nil {
		ctx = context.Background()
	}
	// A Job that is late is told to end before it is ended: there is time to say what was not looked at.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	g := plugin.Gate{API: api, Server: config.Host, Log: a.stdout, Now: time.Now, Patience: o.patience, Deadline: o.deadline}
	return g.Run(ctx, wanted)
}

// config says how the management cluster is reached.
func (o gateOptions) config() (*restclient.Config, error) {
	if o.kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
		if clientcmd.IsEmptyConfig(err) { // whose own words are of an environment variable that is not read
			return nil, fmt.Errorf("reading the kubeconfig: %s names no API server", o.kubeconfig)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the kubeconfig: %w", err)
		}
		return config, nil
	}
	config, err := restclient.InClusterConfig()
	if errors.Is(err, restclient.ErrNotInCluster) {
		return nil, usageError{errors.New("no --kubeconfig, and this is no pod of a management cluster"), "copyhold gate --help"}
	}
	if err != nil {
		return nil, fmt.Errorf("reaching the management cluster as a pod in it, by its ServiceAccount's token: %w", err)
	}
	return config, nil
}

// readWanted reads what is wanted: a folder is that of mounted ConfigMaps, whose files are read in order of their names.
func (a *app) readWanted(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(a.stdin)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return os.ReadFile(name)
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var all []byte
	for _, e := range entries { // sorted by name
		if strings.HasPrefix(e.Name(), ".") { // the mount's own folders
			continue
		}
		data, err := os.ReadFile(filepath.Join(name, e.Name()))
		if err != nil {
			return nil, err
		}
		all = slices.Concat(all, data)
	}
	return all, nil
}
