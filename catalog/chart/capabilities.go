package chart

import (
	"slices"

	"helm.sh/helm/v3/pkg/chartutil"
)

// What a chart is told of the cluster it is for. It is the same on every machine and for every cluster: helm would take it from the
// libraries it is built with, and another build of copyhold would then render other manifests. A change here is a change of what
// charts render, and belongs in the changelog.
const (
	kubeVersion      = "v1.36.0"
	kubeMajor        = "1"
	kubeMinor        = "36"
	pretendedVersion = "v3.21.0" // of helm itself
)

// apiVersions is what .Capabilities.APIVersions holds: the stable versions of Kubernetes' own groups, and those of Cluster API.
// Kinds (apps/v1/Deployment) are not in it, as they are not when helm renders without a cluster.
var apiVersions = chartutil.VersionSet{
	"v1",
	"addons.cluster.x-k8s.io/v1beta2",
	"admissionregistration.k8s.io/v1",
	"apiextensions.k8s.io/v1",
	"apiregistration.k8s.io/v1",
	"apps/v1",
	"authentication.k8s.io/v1",
	"authorization.k8s.io/v1",
	"autoscaling/v1",
	"autoscaling/v2",
	"batch/v1",
	"bootstrap.cluster.x-k8s.io/v1beta2",
	"certificates.k8s.io/v1",
	"cluster.x-k8s.io/v1beta2",
	"controlplane.cluster.x-k8s.io/v1beta2",
	"coordination.k8s.io/v1",
	"discovery.k8s.io/v1",
	"events.k8s.io/v1",
	"flowcontrol.apiserver.k8s.io/v1",
	"networking.k8s.io/v1",
	"node.k8s.io/v1",
	"policy/v1",
	"rbac.authorization.k8s.io/v1",
	"resource.k8s.io/v1",
	"scheduling.k8s.io/v1",
	"storage.k8s.io/v1",
}

// capabilities gives a copy, since a template can reach into it.
func capabilities() *chartutil.Capabilities {
	c := &chartutil.Capabilities{
		KubeVersion: chartutil.KubeVersion{Version: kubeVersion, Major: kubeMajor, Minor: kubeMinor},
		APIVersions: slices.Clone(apiVersions),
	}
	c.HelmVersion.Version = pretendedVersion
	return c
}
