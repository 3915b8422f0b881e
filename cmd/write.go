package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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

// carryOut writes a plan's files one after the other, each whole or not at all. What is left over from a run that was cut off is
// cleared away first.
func carryOut(root, dir string, writes []ledger.Write) error {
	if len(writes) == 0 {
		return nil
	}
	if err := sweep(filepath.Join(root, filepath.FromSlash(dir))); err != nil {
		return err
	}
	for _, w := range writes {
		if err := replace(filepath.Join(root, filepath.FromSlash(w.File)), w.Data); err != nil {
			return fmt.Errorf("writing %s: %w; what is written so far stands, and copyhold allocate goes on from there", w.File, err)
		}
	}
	return nil
}

// replace writes a file so that anybody who looks sees the old content or the new, and nothing else, even after a crash: the new
// content is on disk before it gets the name, and the name is on disk before replace returns.
func replace(name string, data []byte) (err error) {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, tempPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err = os.Rename(f.Name(), name); err != nil {
		return err
	}
	return syncDir(dir)
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
