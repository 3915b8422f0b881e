// Crds writes the schemas of the provider kinds that the built-in classes and tiers use, taken from the Go modules of their providers,
// into the two folders that hold them: of all repositories, and of the tiers that are written out on demand. What does not bear on defaulting and validation is left out: descriptions, examples, other versions, status.
//
//	go run ./tests/crds catalog/builtin/files/catalog/crds catalog/builtin/tiers/crds
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// A source is a CustomResourceDefinition in a module. All of them are under the Apache License, Version 2.0.
type source struct {
	module, version string
	dir             string
	group, plural   string
	apiVersion      string // the one that is kept
	contract        string // of Cluster API that it speaks, as the provider's own kustomization labels it
}

var sources = []source{
	{capk, capkVersion, "config/crd/bases", infrastructure, "kubevirtclusters", "v1alpha1", "v1beta1"},
	{capk, capkVersion, "config/crd/bases", infrastructure, "kubevirtclustertemplates", "v1alpha1", "v1beta1"},
	{capk, capkVersion, "config/crd/bases", infrastructure, "kubevirtmachinetemplates", "v1alpha1", "v1beta1"},
	{kamaji, kamajiVersion, "config/crd/bases", "controlplane.cluster.x-k8s.io", "kamajicontrolplanes", "v1alpha2", "v1beta2"},
	{kamaji, kamajiVersion, "config/crd/bases", "controlplane.cluster.x-k8s.io", "kamajicontrolplanetemplates", "v1alpha2", "v1beta2"},
	{capi, capiVersion, "bootstrap/kubeadm/config/crd/bases", "bootstrap.cluster.x-k8s.io", "kubeadmconfigtemplates", "v1beta2", "v1beta2"},
}

// further are those of tiers that are written out on demand.
var further = []source{
	{kamajiItself, kamajiItselfVersion, "config/crd/bases", "kamaji.clastix.io", "tenantcontrolplanes", "v1alpha1", ""},
	{proxmox, proxmoxVersion, "config/crd/bases", infrastructure, "proxmoxclusters", "v1alpha2", "v1beta2"},
	{proxmox, proxmoxVersion, "config/crd/bases", infrastructure, "proxmoxmachinetemplates", "v1alpha2", "v1beta2"},
	{nutanix, nutanixVersion, "config/crd/bases", infrastructure, "nutanixclusters", "v1beta1", "v1beta1"},
	{nutanix, nutanixVersion, "config/crd/bases", infrastructure, "nutanixmachinetemplates", "v1beta1", "v1beta1"},
	{packet, packetVersion, "config/crd/bases", infrastructure, "packetclusters", "v1beta1", "v1beta1"},
	{packet, packetVersion, "config/crd/bases", infrastructure, "packetmachinetemplates", "v1beta1", "v1beta1"},
}

const (
	infrastructure = "infrastructure.cluster.x-k8s.io"
	capk           = "sigs.k8s.io/cluster-api-provider-kubevirt"
	capkVersion    = "v0.11.2"
	kamaji         = "github.com/clastix/cluster-api-control-plane-provider-kamaji"
	kamajiVersion  = "v0.20.0"
	capi           = "sigs.k8s.io/cluster-api"
	capiVersion    = "v1.14.2"

	kamajiItself        = "github.com/clastix/kamaji"
	kamajiItselfVersion = "v1.0.0"
	proxmox             = "github.com/ionos-cloud/cluster-api-provider-proxmox"
	proxmoxVersion      = "v0.9.0"
	nutanix             = "github.com/nutanix-cloud-native/cluster-api-provider-nutanix"
	nutanixVersion      = "v1.10.3"
	packet              = "sigs.k8s.io/cluster-api-provider-packet"
	packetVersion       = "v0.9.0"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go run ./tests/crds FOLDER FOLDER")
		os.Exit(2)
	}
	for i, all := range [][]source{sources, further} {
		for _, s := range all {
			data, err := s.trimmed()
			if err == nil {
				err = os.WriteFile(filepath.Join(os.Args[i+1], s.file()), data, 0o644)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, "crds:", err)
				os.Exit(1)
			}
		}
	}
}

// file is named as the definition is, so that it can be found without reading it.
func (s source) file() string { return s.plural + "." + s.group + ".json" }

func (s source) trimmed() ([]byte, error) {
	dir, err := download(s.module + "@" + s.version)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(dir, s.dir, s.group+"_"+s.plural+".yaml"))
	if err != nil {
		return nil, err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return nil, fmt.Errorf("%s: %w", s.file(), err)
	}
	spec := crd["spec"].(map[string]any)
	var version map[string]any
	for _, v := range spec["versions"].([]any) {
		if v := v.(map[string]any); v["name"] == s.apiVersion {
			version = v
		}
	}
	if version == nil {
		return nil, fmt.Errorf("%s has no version %s", s.file(), s.apiVersion)
	}
	schema := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	delete(schema["properties"].(map[string]any), "status")
	names := spec["names"].(map[string]any)
	out, err := json.MarshalIndent(map[string]any{
		"apiVersion": crd["apiVersion"],
		"kind":       crd["kind"],
		"metadata": map[string]any{
			"name":   s.plural + "." + s.group,
			"labels": s.labels(),
			"annotations": map[string]any{
				"copyhold.dev/source":  fmt.Sprintf("%s@%s:%s/%s_%s.yaml", s.module, s.version, s.dir, s.group, s.plural),
				"copyhold.dev/license": "Apache-2.0",
				"copyhold.dev/trimmed": "one version, without status and descriptions",
			},
		},
		"spec": map[string]any{
			"group": s.group,
			"names": map[string]any{"kind": names["kind"], "listKind": names["listKind"], "plural": names["plural"], "singular": names["singular"]},
			"scope": spec["scope"],
			"versions": []any{map[string]any{
				"name": s.apiVersion, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": bare(schema)},
			}},
		},
	}, "", " ")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.file(), err)
	}
	return append(out, '\n'), nil
}

// labels say which contract of Cluster API a version speaks; Kamaji's own kinds speak none.
func (s source) labels() map[string]any {
	if s.contract == "" {
		return map[string]any{}
	}
	return map[string]any{"cluster.x-k8s.io/" + s.contract: s.apiVersion}
}

// bare is a schema without words.
func bare(schema any) any {
	switch x := schema.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, v := range x {
			if _, isText := v.(string); k == "description" && isText || k == "example" {
				continue
			}
			if k == "default" || k == "enum" || k == "required" || k == "x-kubernetes-validations" { // values, not schemas
				out[k] = v
				continue
			}
			out[k] = bare(v)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = bare(v)
		}
		return out
	}
	return schema
}

// download has the go command fetch a module, and returns the folder it is in.
func download(module string) (string, error) {
	var stderr bytes.Buffer
	c := exec.Command("go", "mod", "download", "-json", module)
	c.Stderr = &stderr
	out, err := c.Output()
	var answer struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &answer); err == nil {
		err = jsonErr
	}
	if err != nil || answer.Error != "" {
		return "", fmt.Errorf("go mod download %s: %v %s %s", module, err, answer.Error, strings.TrimSpace(stderr.String()))
	}
	return answer.Dir, nil
}
