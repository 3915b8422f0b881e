package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
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
func lockLedger(root, dir string) (func(), error) {
	full := filepath.Join(root, filepath.FromSlash(dir))
	if err := os.MkdirAll(full, 0o755); err != nil {
		return nil, fmt.Errorf("locking the ledger: %w", err)
	}
	f, err := os.Open(full)
	if err != nil {
		return nil, fmt.Errorf("locking the ledger: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another copyhold is writing %s: try again when it is done", full), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// carryOut writes a plan's files, each whole or not at all, in the plan's order. What is left over from a run that was cut off is
// cleared away first.
//
// All new contents are on disk under temporary names before the first file gets its own, so that anybody who looks, even after a
// crash, sees of each file the old content or the new. Waiting for the disk is nearly all of the work: it is done for many at once.
func carryOut(root, dir string, writes []ledger.Write) error {
	if len(writes) == 0 {
		return nil
	}
	if err := sweep(filepath.Join(root, filepath.FromSlash(dir))); err != nil {
		return err
	}
	temps, err := prepare(root, writes)
	defer func() {
		for _, t := range temps {
			if t != "" {
				_ = os.Remove(t) // what did not become a file
			}
		}
	}()
	if err != nil {
		return fmt.Errorf("%w; no file of the ledger is changed", err)
	}
	folders := map[string]bool{}
	for i, w := range writes {
		name := filepath.Join(root, filepath.FromSlash(w.File))
		if err := os.Rename(temps[i], name); err != nil {
			return fmt.Errorf("writing %s: %w; what is written so far stands, and copyhold allocate goes on from there", w.File, err)
		}
		temps[i] = ""
		folders[filepath.Dir(name)] = true
	}
	for folder := range folders {
		if err := syncDir(folder); err != nil {
			return fmt.Errorf("writing %s: %w", folder, err)
		}
	}
	return nil
}

// prepare puts each content on disk under a temporary name beside the file it is for. On an error it returns what is there already.
func prepare(root string, writes []ledger.Write) ([]string, error) {
	together := len(writes) > 100 && runtime.GOOS == "linux"
	atOnce := 32
	if together { // nobody waits for the disk, and a folder takes one new file at a time
		atOnce = 2
	}
	temps, errs := make([]string, len(writes)), make([]error, len(writes))
	made := map[string]bool{}
	for _, w := range writes {
		dir := filepath.Dir(filepath.Join(root, filepath.FromSlash(w.File)))
		if made[dir] {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return temps, fmt.Errorf("writing %s: %w", w.File, err)
		}
		made[dir] = true
	}
	var wg sync.WaitGroup
	for worker := range atOnce {
		wg.Go(func() {
			for i := worker; i < len(writes); i += atOnce {
				name := filepath.Join(root, filepath.FromSlash(writes[i].File))
				if temps[i], errs[i] = temporary(name, writes[i].Data, !together); errs[i] != nil {
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
		if err := syncAll(root); err != nil {
			return temps, fmt.Errorf("writing the ledger: %w", err)
		}
	}
	return temps, nil
}

func temporary(name string, data []byte, sync bool) (string, error) {
	temp := filepath.Join(filepath.Dir(name), tempPrefix+filepath.Base(name))
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if sync {
		err = errors.Join(err, f.Sync())
	}
	return temp, errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// sweep removes files that a run before left half written.
func sweep(dir string) error {
	return filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && e.Type().IsRegular() && strings.HasPrefix(e.Name(), tempPrefix) {
			return os.Remove(name)
		}
		return err
	})
}
