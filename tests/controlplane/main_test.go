package controlplane

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

var (
	update = flag.Bool("update", false, "rewrite docs/prediction-report.md")
	began  = time.Now()

	copyhold string // the command
	bin      string // the programs of the control plane
	live     *plane
	actor    *player
)

// tell prints what is being done, and how long the run has taken until then.
func tell(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
}

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set("20") // tests wait more than they work
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-asked:
			tell("interrupted: stopping")
			stopAll()
			os.Exit(130) // what is only just being started ends with this process
		case <-ctx.Done():
		}
	}()
	if err := prepare(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "tests/controlplane:", err)
		return 1
	}
	defer stopAll()
	code := m.Run()
	if len(actor.errs) > 0 {
		fmt.Fprintf(os.Stderr, "the player could not do its part, %d times: %v\n", len(actor.errs), actor.errs[0])
		code = max(code, 1)
	}
	tell("stopping")
	return code
}

// stopAll ends what has been started, in order. Who calls it second, waits for the first.
func stopAll() {
	if actor != nil {
		actor.stop()
	}
	if live != nil {
		live.stop()
	}
	if copyhold != "" {
		_ = os.RemoveAll(filepath.Dir(copyhold))
	}
}

func prepare(ctx context.Context) error {
	var err error
	if bin, err = build(tell); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "copyhold")
	if err != nil {
		return err
	}
	copyhold = filepath.Join(dir, "copyhold")
	c := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", copyhold, "./cmd/copyhold")
	c.Dir = "../.."
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./cmd/copyhold: %w\n%s", err, out)
	}
	tell("copyhold is built")
	if live, err = startPlane(ctx, bin, tell); err != nil {
		return err
	}
	actor, err = startPlayer(ctx, live)
	return err
}
