package overlay

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestApplyFinds(t *testing.T) {
	const hint = "  hint: an overlay may change what is in an object, not its apiVersion, kind, namespace or name\n"
	tests := map[string]struct {
		tree fstest.MapFS
		want string
	}{
		"renamed": {
			folder("patches:\n- path: a.yaml\n  target: {kind: Cluster}\n- path: b.yaml\n  target: {name: lunar}\n- path: a.yaml\n  target: {kind: Cluster}\n",
				"a.yaml", "- {op: add, path: /spec/a, value: b}\n", "b.yaml", "# one\n- {op: replace, path: /metadata/name, value: stellar}\n"),
			`o/b.yaml:2:1: Cluster.cluster.x-k8s.io photon-prod/lunar gets metadata.name "stellar" [overlay/identity]` + "\n" + hint},
		"renamed with leave": {
			folder("patches:\n- target: {name: lunar}\n  options: {allowNameChange: true, allowKindChange: true}\n  patch: '{kind: Moon, metadata: {name: stellar}}'\n"),
			`o/kustomization.yaml:6:10: Cluster.cluster.x-k8s.io photon-prod/lunar gets kind "Moon" and gets metadata.name "stellar" [overlay/identity]` + "\n" + hint},
		"moved, by two patches": {
			folder("patches:\n- patch: '[{op: replace, path: /metadata/namespace, value: photon-test}]'\n  target: {name: lunar}\n- patch: '[{op: remove, path: /metadata/namespace}]'\n  target: {kind: SubnetClaim}\n"),
			`o/kustomization.yaml:4:10: Cluster.cluster.x-k8s.io photon-prod/lunar gets metadata.namespace "photon-test" [overlay/identity]` + "\n" + hint +
				`o/kustomization.yaml:6:10: SubnetClaim.example.net photon-prod/production gets metadata.namespace "" [overlay/identity]` + "\n" + hint},
		"another apiVersion": {
			folder("patches:\n- patch: '[{op: replace, path: /apiVersion, value: cluster.x-k8s.io/v1beta1}]'\n  target: {name: lunar}\n"),
			`o/kustomization.yaml:4:10: Cluster.cluster.x-k8s.io photon-prod/lunar gets apiVersion "cluster.x-k8s.io/v1beta1" [overlay/identity]` + "\n" + hint},
		"two objects change places": {
			folder("patches:\n- patch: '[{op: replace, path: /metadata/name, value: lunar}]'\n  target: {labelSelector: team}\n" +
				"- patch: '[{op: replace, path: /metadata/name, value: solar}]'\n  target: {kind: Cluster, labelSelector: '!team'}\n"),
			`o/kustomization.yaml:4:10: Cluster.cluster.x-k8s.io photon-prod/solar gets metadata.name "lunar" [overlay/identity]` + "\n" + hint +
				`o/kustomization.yaml:6:10: Cluster.cluster.x-k8s.io photon-prod/lunar gets metadata.name "solar" [overlay/identity]` + "\n" + hint},
		"renamed by a replacement": {
			folder("replacements:\n- sourceValue: twin\n  targets: [{select: {name: solar}}]\n"),
			`o/kustomization.yaml:4:3: Cluster.cluster.x-k8s.io photon-prod/solar gets metadata.name "twin" [overlay/identity]` + "\n" + hint},
		"removed": {
			folder("patches:\n- patch: '{$patch: delete, kind: a, metadata: {name: a}}'\n  target: {kind: SubnetClaim}\n"),
			`o/kustomization.yaml:4:10: SubnetClaim.example.net photon-prod/production is removed [overlay/identity]` + "\n" + hint},
		"hidden from kustomize": {
			folder("commonAnnotations: {config.kubernetes.io/local-config: 'true'}\n"),
			`o/kustomization.yaml: Cluster.cluster.x-k8s.io photon-prod/lunar is removed [overlay/identity]` + "\n" + hint +
				`o/kustomization.yaml: Cluster.cluster.x-k8s.io photon-prod/solar is removed [overlay/identity]` + "\n" + hint +
				`o/kustomization.yaml: SubnetClaim.example.net photon-prod/production is removed [overlay/identity]` + "\n" + hint},
		"a step that does not apply": {
			folder("commonAnnotations: {a: b}\npatches:\n- path: a.yaml\n  target: {kind: .*}\n- path: b.yaml\n  target: {kind: Cluster}\n- path: a.yaml\n  target: {kind: .*}\n",
				"a.yaml", "- {op: add, path: /spec/a, value: b}\n", "b.yaml", "- {op: remove, path: /metadata/labels}\n"),
			`o/b.yaml:1:1: Cluster.cluster.x-k8s.io photon-prod/lunar: error in remove for path: '/metadata/labels': Unable to remove nonexistent key: labels: missing value [overlay/failed]` + "\n"},
		"the first entry that fails, though a later one cannot be read": {
			folder("patches:\n- patch: '[{op: remove, path: /a}]'\n  target: {name: solar}\n- patch: '{kind: AList, metadata: {name: a}, items: 5}'\n  target: {name: solar}\n"),
			`o/kustomization.yaml:4:10: Cluster.cluster.x-k8s.io photon-prod/solar: error in remove for path: '/a': Unable to remove nonexistent key: a: missing value [overlay/failed]` + "\n"},
		"a late step that does not apply": {
			folder("patchesJson6902:\n- patch: '[{op: test, path: /spec/cidr, value: 203.0.113.0/24}]'\n  target: {kind: SubnetClaim}\n"),
			`o/kustomization.yaml:4:10: SubnetClaim.example.net photon-prod/production: testing value /spec/cidr failed: test failed [overlay/failed]` + "\n"},
		"an operation that is none": {
			folder("patches:\n- patch: '[{op: ad, path: /spec/cidr}]'\n  target: {kind: SubnetClaim}\n"),
			`o/kustomization.yaml:4:10: SubnetClaim.example.net photon-prod/production: Unexpected kind: ad [overlay/failed]` + "\n"},
		"a merge that does not fit": {
			folder("patches:\n- patch: '{kind: a, metadata: {name: a}, spec: {topology: [a]}}'\n  target: {name: solar}\n"),
			`o/kustomization.yaml:4:10: Cluster.cluster.x-k8s.io photon-prod/solar: wrong node kind: expected MappingNode but got SequenceNode: node contents: ["a"] [overlay/failed]` + "\n"},
		"a merge patch kustomize cannot read": {
			folder("patches:\n- patch: '{kind: AList, metadata: {name: a}, items: \"`: a\"}'\n  target: {name: solar}\n"),
			`o/kustomization.yaml:4:10: Cluster.cluster.x-k8s.io photon-prod/solar: unable to parse SM or JSON patch [overlay/failed]` + "\n"},
		"an annotation kustomize keeps for itself": {
			folder("commonAnnotations: {internal.config.kubernetes.io/previousNames: 'a,b'}\n"),
			`o/kustomization.yaml: Cluster.cluster.x-k8s.io photon-prod/solar: kustomize cannot handle this: number of previous names, number of previous namespaces, number of previous kinds not equal [overlay/failed]` + "\n"},
		"a replacement without its source": {
			folder("replacements:\n- source: {kind: Nothing, fieldPath: a}\n  targets: [{select: {kind: Cluster}, fieldPaths: [a]}]\n"),
			`o/kustomization.yaml:4:3: nothing selected by Nothing.[noVer].[noGrp]/[noName].[noNs]:a [overlay/failed]` + "\n"},
		"a replacement kustomize chokes on": {
			folder("replacements:\n- sourceValue: a\n  targets: [{select: {kind: SubnetClaim}, reject: [null], fieldPaths: [spec.cidr]}]\n"),
			`o/kustomization.yaml:4:3: kustomize cannot handle this: runtime error: invalid memory address or nil pointer dereference [overlay/failed]` + "\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out, found := load(t, test.tree).Apply(parse(t, solar, lunar, subnet))
			if diff := cmp.Diff(test.want, found.String()); diff != "" {
				t.Errorf("Apply: findings (-want +got)\n%s", diff)
			}
			if out != nil {
				t.Errorf("Apply gives %d objects in spite of findings", len(out))
			}
		})
	}
}

func TestApplyUnreadableObject(t *testing.T) {
	in := parse(t, solar, lunar)
	in[1].SetAnnotations(map[string]string{"a": "\x7f"})
	_, found := load(t, folder("commonAnnotations: {a: b}\n")).Apply(in)
	want := "o/kustomization.yaml: Cluster.cluster.x-k8s.io photon-prod/lunar: yaml: control characters are not allowed [overlay/failed]\n"
	if diff := cmp.Diff(want, found.String()); diff != "" {
		t.Errorf("Apply: findings (-want +got)\n%s", diff)
	}
}

// A patch that does the same to every object is told of often enough, not once per object.
func TestApplyFindsInBounds(t *testing.T) {
	var docs []string
	for i := range 30 {
		docs = append(docs, strings.Replace(solar, "name: solar", fmt.Sprintf("name: c%02d", i), 1))
	}
	_, found := load(t, folder("patches: [{patch: '[{op: replace, path: /metadata/namespace, value: a}]', target: {kind: Cluster}}]\n")).Apply(parse(t, docs...))
	if want := "o/kustomization.yaml: 10 more objects are removed, or become other objects [overlay/identity]"; len(found) != 21 || found[20].String() != want {
		t.Errorf("Apply = %d findings, the last %v, want 21 and %s", len(found), found[len(found)-1], want)
	}
}
