package topology_test

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"copyhold.dev/copyhold/catalog"
)

// editPatch changes a patch of the class: some changes change what comes out, some only how it is written.
func (p *player) editPatch(r *repository) string {
	list, _ := r.spec()["patches"].([]any)
	if len(list) == 0 {
		return p.newPatch(r)
	}
	i := p.rand.IntN(len(list))
	patch := list[i].(map[string]any)
	definition := pick(p.rand, entries(patch["definitions"])...)
	ops := definition["jsonPatches"].([]any)
	op := pick(p.rand, entries(ops)...)
	said := fmt.Sprintf("patch %s: ", patch["name"])
	switch p.rand.IntN(11) {
	case 0, 1:
		kind, _ := at(definition, "selector", "kind").(string)
		return said + p.editOperation(kind, op)
	case 2:
		patch["enabledIf"] = pick(p.rand, "true", "false", `{{ printf "true" }}`, "{{ .builtin.machineDeployment.class }}")
		return said + "enabledIf " + patch["enabledIf"].(string)
	case 3:
		delete(patch, "enabledIf")
		return said + "always"
	case 4:
		r.spec()["patches"] = slices.Delete(list, i, i+1)
		return said + "gone"
	case 5:
		j := p.rand.IntN(len(list))
		list[i], list[j] = list[j], list[i]
		return said + "in another place"
	case 6:
		patch["name"] = patch["name"].(string) + "x"
		return said + "renamed"
	case 7:
		patch["description"] = "words"
		return said + "description"
	case 8:
		twin := runtime.DeepCopyJSON(patch)
		twin["name"] = fmt.Sprintf("twin%d", len(list))
		r.spec()["patches"] = append(list, twin)
		return said + "twice"
	case 9:
		if len(ops) > 1 {
			definition["jsonPatches"] = ops[:len(ops)-1]
			return said + "an operation less"
		}
	case 10:
		if on, ok := at(definition, "selector", "matchResources", "machineDeploymentClass").(map[string]any); ok {
			on["names"] = []any{pick(p.rand, append(r.workerClasses(), "*", "w*")...)}
			return said + "on " + toJSON(on["names"])
		}
	}
	return ""
}

func (p *player) editOperation(kind string, op map[string]any) string {
	from, _ := op["valueFrom"].(map[string]any)
	said := fmt.Sprintf("%v ", op["path"])
	if variable, ok := from["variable"].(string); ok {
		if chance(p.rand, 2) && !strings.Contains(variable, "[") {
			op["valueFrom"] = map[string]any{"template": "{{ ." + variable + " | toJson }}"}
			return said + "by template"
		}
		first, _, _ := strings.Cut(variable, ".")
		from["variable"] = first
		return said + "from " + first
	}
	if text, ok := from["template"].(string); ok {
		from["template"] = pick(p.rand, text+"{{/* words */}}", text+"\n", "{{ if true }}"+text+"{{ end }}", strings.Replace(text, "a", "b", 1), text+"x", `"a"`)
		return said + "template " + from["template"].(string)
	}
	if v, ok := op["value"]; ok {
		schema := schemaAt(kind, op["path"].(string))
		if m, ok := v.(map[string]any); ok && schema["properties"] != nil {
			return said + "value " + change(p.rand, m, schema)
		}
		op["value"] = twist(p.rand, v, schema)
		return said + "value " + toJSON(op["value"])
	}
	op["path"] = op["path"].(string) + "x"
	return said + "another path"
}

// newValue is a patch that writes an object with defaults into one of the class's templates.
func (p *player) newValue(r *repository) string {
	list, _ := r.spec()["patches"].([]any)
	paths := map[string][]string{
		"KubevirtMachineTemplate":    {"virtualMachineBootstrapCheck"},
		"ExampleMachineTemplate":     {"disk", "probe", "guard", "disk/cache", "nics/-", "nics", "tags", "hint"},
		"KubeadmConfigTemplate":      {"joinConfiguration/nodeRegistration", "format", "files"},
		"KamajiControlPlaneTemplate": {"network", "kubelet", "addons", "registry"},
	}
	t := pick(p.rand, r.class[1:]...)
	if paths[t.GetKind()] == nil {
		return ""
	}
	path := "/spec/template/spec/" + pick(p.rand, paths[t.GetKind()]...)
	name := fmt.Sprintf("v%d", p.rand.IntN(1000))
	on := map[string]any{"machineDeploymentClass": map[string]any{"names": []any{"*"}}}
	if t.GetKind() == "KamajiControlPlaneTemplate" {
		on = map[string]any{"controlPlane": true}
	}
	v := value(p.rand, schemaAt(t.GetKind(), path), true, 2)
	r.spec()["patches"] = append(list, map[string]any{"name": name, "definitions": []any{map[string]any{
		"selector":    map[string]any{"apiVersion": t.GetAPIVersion(), "kind": t.GetKind(), "matchResources": on},
		"jsonPatches": []any{map[string]any{"op": "add", "path": path, "value": v}},
	}}})
	return fmt.Sprintf("new patch %s on %s: %s %s", name, t.GetKind(), path, toJSON(v))
}

// newPatch puts the outcome of a random template on one of the class's templates.
func (p *player) newPatch(r *repository) string {
	if chance(p.rand, 3) {
		return p.newValue(r)
	}
	list, _ := r.spec()["patches"].([]any)
	places := map[string]string{
		"KubevirtMachineTemplate":    "/spec/template/spec/virtualMachineTemplate/spec/template/metadata/annotations/",
		"ExampleMachineTemplate":     "/spec/template/spec/labels/",
		"KubeadmConfigTemplate":      "/spec/template/spec/preKubeadmCommands/-",
		"KamajiControlPlaneTemplate": "/spec/template/spec/dataStoreName",
	}
	t := pick(p.rand, append(append(r.templates("MachineTemplate"), r.templates("MachineTemplate")...), append(r.templates("ConfigTemplate"), r.templates("ControlPlaneTemplate")...)...)...)
	path := places[t.GetKind()]
	name := fmt.Sprintf("p%d", p.rand.IntN(1000))
	if strings.HasSuffix(path, "/") {
		path += name
	}
	on := map[string]any{"machineDeploymentClass": map[string]any{"names": []any{pick(p.rand, "*", "*", r.workerClasses()[0])}}}
	if t.GetKind() == "KamajiControlPlaneTemplate" {
		on = map[string]any{"controlPlane": true}
	}
	text := p.template(r)
	patch := map[string]any{"name": name, "definitions": []any{map[string]any{
		"selector":    map[string]any{"apiVersion": t.GetAPIVersion(), "kind": t.GetKind(), "matchResources": on},
		"jsonPatches": []any{map[string]any{"op": "add", "path": path, "valueFrom": map[string]any{"template": text}}},
	}}}
	if slices.ContainsFunc(entries(list), func(x map[string]any) bool { return x["name"] == name }) {
		return ""
	}
	if chance(p.rand, 4) {
		patch["enabledIf"] = "{{ if " + p.expression(r) + " }}true{{ end }}"
	}
	r.spec()["patches"] = append(list, patch)
	return fmt.Sprintf("new patch on %s: %s, enabledIf %v", t.GetKind(), text, patch["enabledIf"])
}

// template is a Go template that gives a string, whatever it reads.
func (p *player) template(r *repository) string {
	e := p.expression(r)
	return pick(p.rand,
		`{{ printf "%v" (`+e+`) | toJson }}`,
		`{{ printf "%v" (`+e+`) | toJson }}`,
		`{{ with `+e+` }}{{ printf "%v" . | toJson }}{{ else }}"none"{{ end }}`,
		`{{ with `+e+` }}{{ printf "%v %v" . $.builtin.cluster.name | toJson }}{{ else }}{{ .builtin.cluster.namespace }}{{ end }}`,
		`{{ $x := `+e+` }}{{ printf "%v" $x | sha256sum | quote }}`,
		`{{ if `+e+` }}"yes"{{ else }}"no"{{ end }}`,
		`"{{ range $k, $v := dict "x" (`+e+`) }}{{ $k }}{{ $v | toJson | sha256sum | trunc 8 }}{{ end }}"`,
		`"{{ range $i := list 1 2 }}{{ printf "%v" (`+e+`) | sha256sum | trunc 4 }}{{ end }}"`,
		`{{ define "t" }}{{ toJson . | sha256sum }}{{ end }}"{{ template "t" (`+e+`) }}"`,
		`{{- /* a word */ -}} {{ printf "%v-%v" (`+e+`) (`+p.expression(r)+`) | toJson }}`,
	)
}

// expression reads something of what templates are given.
func (p *player) expression(r *repository) string {
	paths := []string{
		"builtin.cluster.name", "builtin.cluster.namespace", "builtin.cluster.metadata.labels", "builtin.cluster.metadata.annotations",
		"builtin.cluster.metadata", "builtin.cluster.topology.version", "builtin.cluster.topology.classRef.name", "builtin.cluster.topology",
		"builtin.cluster.network", "builtin.cluster.network.pods", "builtin.machineDeployment.version", "builtin.machineDeployment.class",
		"builtin.machineDeployment.topologyName", "builtin.machineDeployment.replicas", "builtin.machineDeployment.metadata",
		"builtin.machineDeployment.metadata.labels", "builtin.controlPlane.version", "builtin.controlPlane.replicas", "builtin.cluster.uid",
		"builtin.machineDeployment.name", "builtin.machineDeployment", "builtin.cluster", "builtin.controlPlane.name",
	}
	for _, v := range entries(r.spec()["variables"]) {
		paths = append(paths, v["name"].(string), v["name"].(string))
		properties, _ := at(v, "schema", "openAPIV3Schema", "properties").(map[string]any)
		for _, k := range catalog.Sorted(properties) {
			paths = append(paths, v["name"].(string)+"."+k)
		}
	}
	path := pick(p.rand, paths...)
	keys := strings.Split(path, ".")
	if keys[0] == "builtin" && !chance(p.rand, 3) { // looked at as a whole it makes the test see less: what comes of it is unknown
		return pick(p.rand, "$."+path, "index $ "+strings.ReplaceAll(`"`+path+`"`, ".", `" "`))
	}
	quoted := `"` + strings.Join(keys, `" "`) + `"`
	return pick(p.rand,
		"$."+path, "$."+path,
		"("+"$."+path+")",
		"index $ "+quoted,
		"dig "+quoted+` "none" $`,
		"get $ \""+keys[0]+`"`,
		"toJson $."+path,
		"hasKey $ \""+keys[0]+`"`,
		"(index $ \""+keys[0]+`")`,
		"pick $ \""+keys[0]+`"`,
		"omit $ \"builtin\"",
		"keys $ | sortAlpha",
		"default \"d\" $."+path,
		"eq (toJson $."+path+") (toJson $."+pick(p.rand, paths...)+")",
		"$",
	)
}
