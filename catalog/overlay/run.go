package overlay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"copyhold.dev/copyhold/render/manifest"
)

// kustomize is held while kustomize's code runs: it keeps its schema in globals that it fills on first use, without a lock that covers them.
var kustomize sync.Mutex

// The file system kustomize sees. A component takes effect before the patches of the kustomization that names it, so the two
// together keep kustomize's own order:
//
//	/kustomization.yaml          the objects, then the component, then patchesJson6902 (as patches), then replacements
//	/objects.yaml
//	/overlay/kustomization.yaml  the component: patchesStrategicMerge (as patches), patches, labels, commonAnnotations
const (
	rootFile      = "/kustomization.yaml"
	objectsFile   = "/objects.yaml"
	componentFile = "/overlay/kustomization.yaml"
)

// run is kustomize over the objects, with those of the entries that concern them, and with the overlay's labels and annotations.
func (o Overlay) run(entries []entry, objects []*manifest.Object) (out []*manifest.Object, err error) {
	files, err := o.files(entries, objects)
	if err != nil {
		return nil, err
	}
	kustomize.Lock()
	defer kustomize.Unlock()
	defer func() {
		if p := recover(); p != nil { // kustomize takes apart text that it expects not to be empty, among others
			out, err = nil, fmt.Errorf("kustomize cannot handle this: %v", p)
		}
	}()
	built, err := krusty.MakeKustomizer(&krusty.Options{
		Reorder:          krusty.ReorderOptionNone,
		LoadRestrictions: types.LoadRestrictionsRootOnly,
		PluginConfig:     types.DisabledPluginConfig(),
	}).Run(files, "/")
	if err != nil {
		return nil, err
	}
	out = make([]*manifest.Object, 0, len(objects))
	for _, r := range built.Resources() {
		j, err := r.MarshalJSON()
		if err != nil {
			return nil, err
		}
		obj := &manifest.Object{}
		if err := obj.UnmarshalJSON(j); err != nil {
			return nil, err
		}
		reveal(obj.Object)
		out = append(out, obj)
	}
	return out, nil
}

func (o Overlay) files(entries []entry, objects []*manifest.Object) (filesys.FileSystem, error) {
	root := types.Kustomization{
		TypeMeta:  types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind},
		Resources: []string{"objects.yaml"},
	}
	component := types.Kustomization{
		TypeMeta:          types.TypeMeta{APIVersion: types.ComponentVersion, Kind: types.ComponentKind},
		Labels:            o.labels,
		CommonAnnotations: o.annotations,
	}
	ids := idsOf(objects)
	for _, e := range entries {
		switch {
		case !e.concerns(ids):
		case e.replacement != nil:
			root.Replacements = append(root.Replacements, types.ReplacementField{Replacement: *e.replacement})
		case e.late:
			root.Patches = append(root.Patches, e.patch)
		default:
			component.Patches = append(component.Patches, e.patch)
		}
	}
	files := filesys.MakeFsInMemory()
	if component.CheckEmpty() == nil { // kustomize refuses an empty one
		root.Components = []string{"overlay"}
		if err := write(files, componentFile, component); err != nil {
			return nil, err
		}
	}
	if err := write(files, rootFile, root); err != nil {
		return nil, err
	}
	// JSON, a line each: text stays text whatever it looks like, and no text can look like the end of a document.
	var b bytes.Buffer
	for _, obj := range objects {
		j, err := json.Marshal(hide(obj.Object))
		if err != nil {
			return nil, err
		}
		b.WriteString("---\n")
		b.Write(j)
		b.WriteString("\n")
	}
	return files, files.WriteFile(objectsFile, b.Bytes())
}

func write(files filesys.FileSystem, name string, k types.Kustomization) error {
	b, err := yaml.Marshal(k)
	if err != nil {
		return err
	}
	return files.WriteFile(name, b)
}
