// Package builtin holds the catalog that copyhold init writes out: cluster tiers that mirror the documented kMetal ones. It is
// ours, and makes no claim to be the chart that kMetal installs; rendering reads the files of a tenants repository, never these.
package builtin

import (
	"embed"
	"io/fs"
)

//go:embed all:files
var files embed.FS

// Repository is a tenants repository with the built-in catalog and no requests.
func Repository() fs.FS {
	sub, err := fs.Sub(files, "files")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	return sub
}
