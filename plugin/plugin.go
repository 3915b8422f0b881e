// Package plugin is how Argo CD calls copyhold: as a config management plugin in a sidecar of its repo-server. It turns what Argo CD
// expects of a plugin into rules for a render; it reads no environment, since all that Argo CD hands over there a tenant can write.
package plugin

import (
	"embed"
	"path"
	"strings"

	"github.com/argoproj/argo-cd/v2/common"

	"copyhold.dev/copyhold/render/diag"
)

//go:embed plugin.yaml
var files embed.FS

// ConfigPath is where the sidecar's server looks for the plugin's configuration.
var ConfigPath = path.Join(common.DefaultPluginConfigFilePath, common.PluginConfigFileName)

// Config is the plugin's configuration, as it lies in the image at ConfigPath.
func Config() []byte {
	data, err := files.ReadFile("plugin.yaml")
	if err != nil {
		panic(err) // it is embedded above
	}
	return data
}

// MaxMessage is how much of a failure is handed to Argo CD, in bytes. All of it ends up in the Application's condition, after the
// command line; a message of megabytes breaks the connection and is lost.
const MaxMessage = 4 << 10

// Strict makes errors of the warnings that must not reach a management cluster: a placeholder is a kind that no API server knows.
func Strict(found diag.List) diag.List {
	var out diag.List
	for _, f := range found {
		if f.Name == "catalog/placeholder" {
			f.Severity = diag.Error
		}
		out.Add(f)
	}
	return out
}

// Message is what Argo CD shows of findings: errors before warnings, cut at MaxMessage between two lines, with a word on what is
// left out.
func Message(found diag.List) string {
	var errs, warnings diag.List
	for _, f := range found.Sorted() {
		if f.Severity == diag.Error {
			errs.Add(f)
		} else {
			warnings.Add(f)
		}
	}
	text := errs.String() + warnings.String()
	if len(text) <= MaxMessage {
		return text
	}
	const rest = "... and more: copyhold check shows them all\n"
	cut := strings.LastIndexByte(text[:MaxMessage-len(rest)], '\n')
	return text[:cut+1] + rest
}
