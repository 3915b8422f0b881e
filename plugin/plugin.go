// Package plugin is how Argo CD calls copyhold: as a config management plugin in a sidecar of its repo-server. It turns what Argo CD
// expects of a plugin into rules for a render. It opens no file: what Argo CD hands over comes in as a tree and an environment.
//
// Generate is the plugin's work, ReadParameters its input, Message what a failure looks like. Gate is the hook that Argo CD runs before a
// sync; it alone asks an API server.
package plugin

import (
	"embed"
	"path"

	"github.com/argoproj/argo-cd/v2/common"
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
