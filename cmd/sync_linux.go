package cmd

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncAll puts everything written so far to the file system of a folder on disk, in one go.
func syncAll(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}
