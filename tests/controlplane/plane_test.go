package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// plane is a control plane that runs.
type plane struct {
	dir        string // state, certificates and logs
	kubeconfig string
	authority  []byte // PEM
	config     *rest.Config
	watch      *watch // over what the managers are doing

	processes []*process // in the order of their start
	logs      []*os.File
	stopOnce  sync.Once
}

const adminToken = "administrator"

// startPlane starts etcd and the API server, installs all definitions, and starts the managers.
func startPlane(ctx context.Context, bin string, tell func(string, ...any)) (*plane, error) {
	dir, err := os.MkdirTemp("", "controlplane")
	if err != nil {
		return nil, err
	}
	p := &plane{dir: dir, kubeconfig: filepath.Join(dir, "kubeconfig"), watch: newWatch()}
	if err := p.boot(ctx, bin, tell); err != nil {
		err = fmt.Errorf("%w\n%s", err, p.tails())
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *plane) boot(ctx context.Context, bin string, tell func(string, ...any)) error {
	var err error
	if p.authority, err = certificates(p.dir); err != nil {
		return err
	}
	free, err := ports(9)
	if err != nil {
		return err
	}
	if err := p.startServers(bin, free[:3]); err != nil {
		return err
	}
	tell("etcd and kube-apiserver are up")
	// The managers' own web hooks are called from the start, so their ports are known before they run.
	if err := install(ctx, p, free[3], free[4]); err != nil {
		return err
	}
	tell("%d definitions and the web hooks are installed", len(definitions))
	for i, m := range []struct{ name, gates string }{{"capi-core", "ClusterTopology=true"}, {"capi-kubeadm", "KubeadmBootstrapFormatIgnition=true"}} {
		if err := p.startManager(bin, m.name, m.gates, free[3+i], free[5+2*i], free[6+2*i]); err != nil {
			return err
		}
	}
	tell("Cluster API's managers are up")
	return nil
}

func (p *plane) startServers(bin string, free []int) error {
	etcd := fmt.Sprintf("http://127.0.0.1:%d", free[0])
	peer := fmt.Sprintf("http://127.0.0.1:%d", free[1])
	e, err := p.start("etcd", nil, filepath.Join(bin, "etcd"), "--name=tests", "--data-dir="+filepath.Join(p.dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls="+etcd, "--advertise-client-urls="+etcd, "--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=tests="+peer)
	if err != nil {
		return err
	}
	if err := e.ready(etcd+"/health", http.DefaultClient, time.Minute); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(p.dir, "tokens.csv"), []byte(adminToken+",admin,admin,system:masters\n"), 0o600); err != nil {
		return err
	}
	file := func(name string) string { return filepath.Join(p.dir, name) }
	api, err := p.start("kube-apiserver", nil, filepath.Join(bin, "kube-apiserver"), "--etcd-servers="+etcd,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", free[2]),
		"--tls-cert-file="+file("tls.crt"), "--tls-private-key-file="+file("tls.key"), "--token-auth-file="+file("tokens.csv"), "--authorization-mode=RBAC",
		"--service-account-issuer=https://127.0.0.1", "--service-account-key-file="+file("sa.key"), "--service-account-signing-key-file="+file("sa.key"),
		"--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount", "--allow-privileged=true", "--endpoint-reconciler-type=none")
	if err != nil {
		return err
	}
	server := fmt.Sprintf("https://127.0.0.1:%d", free[2])
	p.config = &rest.Config{Host: server, BearerToken: adminToken, TLSClientConfig: rest.TLSClientConfig{CAData: p.authority}, QPS: -1}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.authority)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	// livez may be read by anybody; that it answers is not enough: readyz is asked for as who the tests are.
	if err := api.ready(server+"/readyz", &http.Client{Transport: bearer{client.Transport}}, 3*time.Minute); err != nil {
		return err
	}
	return os.WriteFile(p.kubeconfig, p.kubeconfigFor(adminToken), 0o600)
}

// kubeconfigFor is a kubeconfig for the API server, with a token.
func (p *plane) kubeconfigFor(token string) []byte {
	c := clientcmdapi.NewConfig()
	c.Clusters["tests"] = &clientcmdapi.Cluster{Server: p.config.Host, CertificateAuthorityData: p.authority}
	c.AuthInfos["user"] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts["tests"] = &clientcmdapi.Context{Cluster: "tests", AuthInfo: "user"}
	c.CurrentContext = "tests"
	data, err := clientcmd.Write(*c)
	if err != nil {
		panic(err) // of maps of strings
	}
	return data
}

func (p *plane) startManager(bin, name, gates string, webhook, diagnostics, health int) error {
	args := []string{"--kubeconfig=" + p.kubeconfig, "--leader-elect=false", "--webhook-cert-dir=" + p.dir, fmt.Sprintf("--webhook-port=%d", webhook),
		fmt.Sprintf("--diagnostics-address=127.0.0.1:%d", diagnostics), "--insecure-diagnostics", fmt.Sprintf("--health-addr=127.0.0.1:%d", health),
		"--logging-format=json", "--v=5", "--feature-gates=" + gates, "--kube-api-qps=500", "--kube-api-burst=1000"}
	m, err := p.start(name, &log{watch: p.watch}, filepath.Join(bin, name), args...)
	if err != nil {
		return err
	}
	return m.ready(fmt.Sprintf("http://127.0.0.1:%d/readyz", health), http.DefaultClient, 2*time.Minute)
}

// start runs a program with a log; what it says is also written to also.
func (p *plane) start(name string, also io.Writer, command string, args ...string) (*process, error) {
	log, err := os.Create(filepath.Join(p.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	p.logs = append(p.logs, log)
	var w io.Writer = log
	if also != nil {
		w = io.MultiWriter(log, also)
	}
	proc, err := start(name, w, command, args...)
	if err == nil {
		p.processes = append(p.processes, proc)
	}
	return proc, err
}

// stop ends the managers, then the API server, then etcd: an API server without its etcd does not end for long.
func (p *plane) stop() {
	p.stopOnce.Do(func() {
		for i := len(p.processes) - 1; i >= 0; i-- {
			p.processes[i].stop()
		}
		for _, l := range p.logs {
			_ = l.Close()
		}
		if keep := os.Getenv("CONTROLPLANE_LOGS"); keep != "" {
			_ = os.CopyFS(keep, os.DirFS(p.dir))
		}
		_ = os.RemoveAll(p.dir)
	})
}

// tails is the end of each log.
func (p *plane) tails() string {
	var out string
	for _, l := range p.logs {
		data, _ := os.ReadFile(l.Name())
		out += fmt.Sprintf("%s:\n%s\n", filepath.Base(l.Name()), data[max(0, len(data)-2000):])
	}
	return out
}

type bearer struct{ http.RoundTripper }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+adminToken)
	return b.RoundTripper.RoundTrip(r)
}
