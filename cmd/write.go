package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"copyhold.dev/copyhold/catalog/ledger"
)

// tempPrefix begins the names of files that are being written. One that is left over is of a run that was cut off.
const tempPrefix = ".copyhold-"

// lockLedger keeps other runs of copyhold from writing the ledger of this checkout until the returned function is called.
// The lock is the kernel's and goes with the process, however that ends.
func lockLedger(t *tree, dir string) (func(), error) {
	if err := t.root.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("locking the ledger: %w", err)
	}
	f, err := t.root.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("locking the ledger: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another copyhold is writing %s: try again when it is done", filepath.Join(t.dir, dir)), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// carryOut writes a plan's files, each whole or not at all, in the plan's order, and nothing out of the root. What is left over from
// a run that was cut off is cleared away first.
//
// All new contents are on disk under temporary names before the first file gets its own, so that anybody who looks, even after a
// crash, sees of each file the old content or the new. Waiting for the disk is nearly all of the work: it is done for many at once.
func carryOut(t *tree, dir string, writes []ledger.Write) error {
	if len(writes) == 0 {
		return nil
	}
	if err := sweep(t.root, dir); err != nil {
		return fmt.Errorf("clearing what an earlier run left in %s: %w", dir, err)
	}
	temps, err := prepare(t, writes)
	defer func() {
		for _, temp := range temps {
			if temp != "" {
				_ = t.root.Remove(temp) // what did not become a file
			}
		}
	}()
	if err != nil {
		return fmt.Errorf("%w; no file of the ledger is changed", err)
	}
	folders := map[string]bool{}
	for i, w := range writes {
		if err := t.root.Rename(temps[i], w.File); err != nil {
			return fmt.Errorf("writing %s: %w; what is written so far stands, and copyhold allocate goes on from there", w.File, err)
		}
		temps[i] = ""
		folders[path.Dir(w.File)] = true
	}
	for folder := range folders {
		if err := syncDir(t.root, folder); err != nil {
			return fmt.Errorf("writing %s: %w", folder, err)
		}
	}
	return nil
}

// prepare puts each content on disk under a temporary name beside the file it is for. On an error it returns what is there already.
func prepare(t *tree, writes []ledger.Write) ([]string, error) {
	together := len(writes) > 100 && runtime.GOOS == "linux"
	atOnce := 32
	if together { // nobody waits for the disk, and a folder takes one new file at a time
		atOnce = 2
	}
	temps, errs := make([]string, len(writes)), make([]error, len(writes))
	made := map[string]bool{}
	for _, w := range writes {
		if dir := path.Dir(w.File); !made[dir] {
			if err := t.root.MkdirAll(dir, 0o755); err != nil {
				return temps, fmt.Errorf("writing %s: %w", w.File, err)
			}
			made[dir] = true
		}
	}
	var wg sync.WaitGroup
	for worker := range atOnce {
		wg.Go(func() {
			for i := worker; i < len(writes); i += atOnce {
				if temps[i], errs[i] = temporary(t.root, writes[i], !together); errs[i] != nil {
					errs[i] = fmt.Errorf("writing %s: %w", writes[i].File, errs[i])
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return temps, err
		}
	}
	if together {
		if err := syncAll(t.dir); err != nil {
			return temps, fmt.Errorf("writing the ledger: %w", err)
		}
	}
	return temps, nil
}

func temporary(root *os.Root, w ledger.Write, sync bool) (string, error) {
	temp := path.Join(path.Dir(w.File), tempPrefix+path.Base(w.File))
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", err
	}
	_, err = f.Write(w.Data)
	if sync {
		err = errors.Join(err, f.Sync())
	}
	return temp, errors.Join(err, f.Close())
}

func syncDir(root *os.Root, dir string) error {
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// sweep removes files that a run before left half written.
func sweep(root *os.Root, dir string) error {
	return fs.WalkDir(root.FS(), dir, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && e.Type().IsRegular() && strings.HasPrefix(e.Name(), tempPrefix) {
			return root.Remove(name)
		}
		return err
	})
}
