package controlplane

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a program of the control plane that runs.
type process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{}
}

// start runs a program. It ends with this process at the latest, however that ends.
func start(name string, output io.Writer, command string, args ...string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(command, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.Env = append(os.Environ(), "POD_NAMESPACE=capi-system", "POD_NAME="+name, "POD_UID=00000000-0000-0000-0000-000000000001")
	// A group of its own: an interrupt from the terminal is for this process, which stops its children in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // whose death Pdeathsig is about
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// stop asks the program to end, and makes it end when it does not.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// ready waits until a URL is answered with 200.
func (p *process) ready(url string, client *http.Client, limit time.Duration) error {
	var last error
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended at its start: %s", p.name, p.cmd.ProcessState)
		case <-time.After(50 * time.Millisecond):
		}
		r, err := client.Get(url)
		if err != nil {
			last = err
			continue
		}
		_ = r.Body.Close()
		if r.StatusCode == http.StatusOK {
			return nil
		}
		last = fmt.Errorf("it answers %s", r.Status)
	}
	return fmt.Errorf("%s is not ready after %s: %w", p.name, limit, last)
}

// ports are ports of loopback that nobody listens on.
func ports(n int) ([]int, error) {
	var out []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // after all are found, so that none is found twice
		out = append(out, l.Addr().(*net.TCPAddr).Port)
	}
	return out, nil
}
