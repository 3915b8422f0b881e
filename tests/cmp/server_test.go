package cmp

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/argoproj/argo-cd/v2/cmpserver/apiclient"
	"github.com/argoproj/argo-cd/v2/common"
	"github.com/argoproj/argo-cd/v2/util/app/discovery"
	"github.com/argoproj/argo-cd/v2/util/cmp"
	retry "github.com/grpc-ecosystem/go-grpc-middleware/retry"
)

// pluginServer is an argocd-cmp-server process with one plugin.
type pluginServer struct {
	dir  string // short: a socket's path has at most 108 bytes
	name string // of the plugin
	pid  int
	log  lockedBuffer

	stop func()
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// sockets and work are the two folders that the server writes to.
func (s *pluginServer) sockets() string { return filepath.Join(s.dir, "sockets") }
func (s *pluginServer) work() string    { return filepath.Join(s.dir, "work") }
func (s *pluginServer) config() string  { return filepath.Join(s.dir, "config") }

// newServer makes the folders of a server whose plugin.yaml is given.
func newServer(name string, pluginYAML []byte) (*pluginServer, error) {
	dir, err := os.MkdirTemp("", "cmp")
	if err != nil {
		return nil, err
	}
	s := &pluginServer{dir: dir, name: name}
	s.stop = func() { _ = os.RemoveAll(dir) }
	for _, d := range []string{s.sockets(), s.work(), s.config()} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return nil, err
		}
	}
	return s, os.WriteFile(filepath.Join(s.config(), common.PluginConfigFileName), pluginYAML, 0o644)
}

// environ is all the server is given: its plugin, found by PATH, and the two folders. No HOME.
func (s *pluginServer) environ() []string {
	return []string{"PATH=" + filepath.Dir(copyhold), common.EnvPluginSockFilePath + "=" + s.sockets(), common.EnvCMPWorkDir + "=" + s.work()}
}

// run starts the server and waits until its socket is there. Of what is started, the process is the server itself.
func (s *pluginServer) run(c *exec.Cmd) error {
	c.Stdout, c.Stderr = &s.log, &s.log
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Pdeathsig = syscall.SIGKILL // should this process end without a word, so does the server
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // whose death the signal is for
		err := c.Start()
		started <- err
		if err == nil {
			_ = c.Wait()
			close(ended)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.pid = c.Process.Pid
	clean := s.stop
	s.stop = func() {
		_ = c.Process.Kill() // it does not end at a SIGTERM
		<-ended
		clean()
	}
	socket := filepath.Join(s.sockets(), s.name+".sock")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("the server ended: %s", s.log.String())
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no socket %s after a minute: %s", socket, s.log.String())
		}
	}
}

func (s *pluginServer) command() *exec.Cmd {
	c := exec.Command(server, "--config-dir-path", s.config())
	c.Env = s.environ()
	return c
}

// shared is a server with copyhold's plugin.yaml, for all tests that need nothing special of it.
var shared = struct {
	once sync.Once
	*pluginServer
	err  error
	stop func()
}{stop: func() {}}

func sidecar(t testing.TB) *pluginServer {
	t.Helper()
	shared.once.Do(func() {
		var config []byte
		if config, shared.err = os.ReadFile("../../plugin/plugin.yaml"); shared.err != nil {
			return
		}
		if shared.pluginServer, shared.err = newServer("copyhold", config); shared.err != nil {
			return
		}
		shared.err = shared.pluginServer.run(shared.pluginServer.command())
		shared.stop = shared.pluginServer.stop
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	t.Setenv(common.EnvPluginSockFilePath, shared.sockets()) // the repo-server reads it too
	return shared.pluginServer
}

// call is what the repo-server asks of a plugin for one application.
type call struct {
	root, path string   // the repository, and the application's folder in it
	env        []string // as in the Application
	exclude    []string // what is not sent: --plugin-tar-exclude
}

func (c call) app() string { return filepath.Join(c.root, filepath.FromSlash(c.path)) }

// generate does what the repo-server does (its runConfigManagementPluginSidecars), and returns the manifests, each as JSON.
func (s *pluginServer) generate(ctx context.Context, c call) ([]string, error) {
	conn, client, err := discovery.DetectConfigManagementPlugin(ctx, c.app(), c.root, s.name, c.env, c.exclude)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stream, err := client.GenerateManifest(ctx, retry.Disable())
	if err != nil {
		return nil, err
	}
	if err := cmp.SendRepoStream(stream.Context(), c.app(), c.root, stream, c.env, c.exclude); err != nil {
		return nil, err
	}
	r, err := stream.CloseAndRecv()
	return r.GetManifests(), err
}

// parameters does what the repo-server does for the user interface (its populatePluginAppDetails).
func (s *pluginServer) parameters(ctx context.Context, c call) (*apiclient.ParametersAnnouncementResponse, error) {
	conn, client, err := discovery.DetectConfigManagementPlugin(ctx, c.app(), c.root, s.name, c.env, c.exclude)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stream, err := client.GetParametersAnnouncement(ctx, retry.Disable())
	if err != nil {
		return nil, err
	}
	if err := cmp.SendRepoStream(stream.Context(), c.app(), c.root, stream, c.env, c.exclude); err != nil {
		return nil, err
	}
	return stream.CloseAndRecv()
}

// idle waits until the server has cleared up after its calls: no repository is left, and no process of the plugin.
func (s *pluginServer) idle(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		folders, err := os.ReadDir(filepath.Join(s.work(), common.DefaultCMPWorkDirName))
		if err != nil {
			t.Fatal(err)
		}
		children := s.children(t)
		if len(folders) == 0 && len(children) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left behind: folders %v, processes %q", folders, children)
		}
	}
}

// children are the processes that the server has started and that are there.
func (s *pluginServer) children(t *testing.T) []string {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.pid))
	if err != nil || len(tasks) == 0 {
		t.Fatalf("no threads of process %d: %v", s.pid, err)
	}
	var out []string
	for _, task := range tasks {
		data, err := os.ReadFile(task)
		if err == nil { // the thread may have ended
			out = append(out, strings.Fields(string(data))...)
		}
	}
	return out
}
