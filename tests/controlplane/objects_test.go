package controlplane

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The kinds that the tests read.
var (
	clusters            = resource("cluster.x-k8s.io/v1beta2", "clusters")
	clusterClasses      = resource("cluster.x-k8s.io/v1beta2", "clusterclasses")
	machineDeployments  = resource("cluster.x-k8s.io/v1beta2", "machinedeployments")
	machineSets         = resource("cluster.x-k8s.io/v1beta2", "machinesets")
	machines            = resource("cluster.x-k8s.io/v1beta2", "machines")
	kamajiControlPlanes = resource("controlplane.cluster.x-k8s.io/v1alpha2", "kamajicontrolplanes")
	kubevirtClusters    = resource("infrastructure.cluster.x-k8s.io/v1alpha1", "kubevirtclusters")
	kubevirtMachines    = resource("infrastructure.cluster.x-k8s.io/v1alpha1", "kubevirtmachines")
	machineTemplates    = resource("infrastructure.cluster.x-k8s.io/v1alpha1", "kubevirtmachinetemplates")
	kubeadmTemplates    = resource("bootstrap.cluster.x-k8s.io/v1beta2", "kubeadmconfigtemplates")
	kairosTemplates     = resource("placeholder.copyhold.dev/v1alpha1", "kairosconfigtemplates")
	kairosConfigs       = resource("placeholder.copyhold.dev/v1alpha1", "kairosconfigs")
	secrets             = resource("v1", "secrets")
	nodes               = resource("v1", "nodes")
	namespaces          = resource("v1", "namespaces")
	quotas              = resource("v1", "resourcequotas")
)

func resource(apiVersion, plural string) schema.GroupVersionResource {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		panic(err) // of a constant
	}
	return gv.WithResource(plural)
}

// resourceOf is the resource of an object. The plurals of all kinds here are regular.
func resourceOf(o *unstructured.Unstructured) schema.GroupVersionResource {
	plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	return plural
}

func lower(s string) string {
	b := []byte(s)
	for i := range b {
		if 'A' <= b[i] && b[i] <= 'Z' {
			b[i] += 'a' - 'A'
		}
	}
	return string(b)
}

// condition is the status of a condition, or "".
func condition(o *unstructured.Unstructured, kind string) string {
	c := conditionOf(o, kind)
	s, _ := c["status"].(string)
	return s
}

func conditionOf(o *unstructured.Unstructured, kind string) map[string]any {
	if o == nil {
		return nil
	}
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			return c
		}
	}
	return nil
}

// field is a value in an object, nil if there is none.
func field(o *unstructured.Unstructured, path ...string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	return v
}

func text(o *unstructured.Unstructured, path ...string) string {
	s, _ := field(o, path...).(string)
	return s
}

// poll asks until it is so.
func poll(ctx context.Context, limit time.Duration, what string, ask func() (bool, error)) error {
	var last error
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		ok, err := ask()
		if ok {
			return nil
		}
		if err != nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	return fmt.Errorf("not within %s: %s (%v)", limit, what, last)
}
