//go:build !linux

package cmd

// syncAll is for Linux; elsewhere files are put on disk one by one.
func syncAll(string) error { return nil }
