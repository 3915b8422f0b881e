package cmp

import (
	"strings"
	"testing"

	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v2/util/lua"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// healthChecks are the Lua scripts of the built argocd-cm, keyed as Argo CD keys them.
func healthChecks(t *testing.T) map[string]v1alpha1.ResourceOverride {
	t.Helper()
	cm := decoded[corev1.ConfigMap](t, installed(t), "ConfigMap/argocd-cm")
	out := map[string]v1alpha1.ResourceOverride{}
	for key, script := range cm.Data {
		if id, ok := strings.CutPrefix(key, "resource.customizations.health."); ok {
			i := strings.LastIndex(id, "_") // group_Kind, as Argo CD's settings split it
			out[id[:i]+"/"+id[i+1:]] = v1alpha1.ResourceOverride{HealthLua: script}
		}
	}
	return out
}

// Each state of each kind, as Argo CD's own Lua interpreter judges it.
func TestHealth(t *testing.T) {
	vm := lua.VM{ResourceOverrides: healthChecks(t)}
	const (
		cluster = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\n"
		plane   = "apiVersion: controlplane.cluster.x-k8s.io/v1alpha2\nkind: KamajiControlPlane\n"
		subnet  = "apiVersion: placeholder.copyhold.dev/v1alpha1\nkind: SubnetClaim\n"
		running = "status: {observedGeneration: 2, initialization: {controlPlaneInitialized: true}, conditions: ["
		fine    = "{type: Available, status: 'True'}, {type: TopologyReconciled, status: 'True'}, "
		ready   = "status: {ready: true, externalManagedControlPlane: true, version: v1.34.1, initialization: {controlPlaneInitialized: true}, "
	)
	for _, c := range []struct {
		name, object, status, message string
	}{
		{"cluster without status", cluster + "metadata: {name: solar}", "Progressing", "no status yet"},
		{"cluster without a spec", cluster + "metadata: {name: solar}\nstatus: {}", "Progressing", "no status yet"},
		{"cluster being created", cluster + "metadata: {generation: 1}\nstatus: {observedGeneration: 1, conditions: [{type: Available, status: 'False', message: '* ControlPlaneAvailable: not yet'}]}", "Progressing", "* ControlPlaneAvailable: not yet"},
		{"cluster that runs", cluster + "metadata: {generation: 2}\n" + running + fine + "{type: RollingOut, status: 'False'}]}", "Healthy", "available"},
		{"cluster without RollingOut", cluster + "metadata: {generation: 2}\n" + running + fine + "]}", "Healthy", "available"},
		{"cluster whose workers roll", cluster + "metadata: {generation: 2}\n" + running + fine + "{type: RollingOut, status: 'True', message: '* MachineDeployment solar-md-0: Rolling out 1 not up-to-date replicas'}]}", "Progressing", "* MachineDeployment solar-md-0: Rolling out 1 not up-to-date replicas"},
		{"cluster that is not available", cluster + "metadata: {generation: 2}\n" + running + "{type: Available, status: 'False', message: '* RemoteConnectionProbe: down'}]}", "Degraded", "* RemoteConnectionProbe: down"},
		{"cluster that nobody can tell of", cluster + "metadata: {generation: 2}\n" + running + "{type: Available, status: Unknown}]}", "Degraded", "not available"},
		{"cluster that is not available while it rolls", cluster + "metadata: {generation: 2}\n" + running + "{type: Available, status: 'False', message: '* WorkersAvailable'}, {type: RollingOut, status: 'True', message: rolling}]}", "Progressing", "rolling"},
		{"cluster that is frozen", cluster + "metadata: {generation: 2}\n" + running + "{type: Available, status: 'True'}, {type: TopologyReconciled, status: 'False', reason: ReconcileFailed, message: 'undeclared field'}]}", "Degraded", "undeclared field"},
		{"cluster that waits for its turn", cluster + "metadata: {generation: 2}\n" + running + "{type: Available, status: 'True'}, {type: TopologyReconciled, status: 'False', reason: MachineDeploymentsUpgradePending, message: 'md-0 waits'}]}", "Progressing", "md-0 waits"},
		{"cluster that is held back on purpose", cluster + "metadata: {generation: 2}\n" + running + "{type: Available, status: 'True'}, {type: TopologyReconciled, status: 'False', reason: MachineDeploymentsUpgradeDeferred, message: 'md-0 is deferred'}]}", "Healthy", "md-0 is deferred"},
		{"cluster whose change is not seen", cluster + "metadata: {generation: 3}\n" + running + fine + "]}", "Progressing", "Cluster API has not seen the last change yet"},
		{"cluster that is paused", cluster + "metadata: {generation: 2}\nspec: {paused: true}\n" + running + fine + "]}", "Suspended", "paused: Cluster API changes nothing"},
		{"cluster that is paused by annotation", cluster + "metadata: {generation: 2}\n" + running + fine + "{type: Paused, status: 'True'}]}", "Suspended", "paused: Cluster API changes nothing"},
		{"cluster that goes", cluster + "metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}\n" + running + "{type: Deleting, status: 'True', message: '* waiting for workers'}]}", "Progressing", "* waiting for workers"},

		{"control plane without status", plane + "metadata: {}\nspec: {version: v1.34.1}", "Progressing", "no status yet"},
		{"control plane being created", plane + "metadata: {}\nspec: {version: v1.34.1}\nstatus: {ready: false, conditions: [{type: TenantControlPlaneAddressReady, status: 'False', message: no address}]}", "Progressing", "TenantControlPlaneAddressReady: no address"},
		{"control plane that runs", plane + "metadata: {}\nspec: {version: v1.34.1, replicas: 2}\n" + ready + "replicas: 2, readyReplicas: 2, upToDateReplicas: 2}", "Healthy", "ready"},
		{"control plane with another spelling", plane + "metadata: {}\nspec: {version: 1.34.1}\n" + ready + "replicas: 2, readyReplicas: 2, upToDateReplicas: 2}", "Healthy", "ready"},
		{"control plane that is upgraded", plane + "metadata: {}\nspec: {version: v1.35.0}\n" + ready + "replicas: 2}", "Progressing", "from v1.34.1 to v1.35.0"},
		{"control plane whose pods roll", plane + "metadata: {}\nspec: {version: v1.34.1}\n" + ready + "replicas: 3, readyReplicas: 2, upToDateReplicas: 1}", "Progressing", "1 of 3 pods are up to date"},
		{"control plane without a ready pod", plane + "metadata: {}\nspec: {version: v1.34.1}\n" + ready + "replicas: 2, readyReplicas: 0, upToDateReplicas: 2}", "Degraded", "no pod is ready"},
		{"control plane scaled to nothing", plane + "metadata: {}\nspec: {version: v1.34.1, replicas: 0}\n" + ready + "replicas: 0, readyReplicas: 0, upToDateReplicas: 0}", "Healthy", "ready"},
		{"control plane that was ready", plane + "metadata: {}\nspec: {version: v1.34.1}\nstatus: {ready: false, initialization: {controlPlaneInitialized: true}}", "Degraded", "not ready"},
		{"control plane that failed", plane + "metadata: {}\nspec: {version: v1.34.1}\nstatus: {ready: true, failureReason: x, failureMessage: no such DataStore}", "Degraded", "no such DataStore"},
		{"control plane that failed without a message", plane + "metadata: {}\nspec: {version: v1.34.1}\nstatus: {ready: true, failureReason: CreateError, failureMessage: ''}", "Degraded", "CreateError"},
		{"control plane without a spec", plane + "metadata: {}\n" + ready + "replicas: 2, readyReplicas: 2, upToDateReplicas: 2}", "Healthy", "ready"},
		{"control plane that is paused", plane + "metadata: {}\nspec: {version: v1.34.1}\nstatus: {ready: true, conditions: [{type: Paused, status: 'True'}]}", "Suspended", "paused"},
		{"control plane that goes", plane + "metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}\nspec: {version: v1.34.1}", "Progressing", "being deleted"},

		{"subnet that tells nothing", subnet + "metadata: {}\nspec: {}", "Healthy", "no status to judge by"},
		{"subnet with an unknown status", subnet + "metadata: {}\nstatus: {vni: 7}", "Healthy", "no status to judge by"},
		{"subnet that is ready", subnet + "metadata: {}\nstatus: {conditions: [{type: Ready, status: 'True', message: ok}]}", "Healthy", "ok"},
		{"subnet that is not", subnet + "metadata: {}\nstatus: {conditions: [{type: Ready, status: 'False', reason: Creating, message: soon}]}", "Progressing", "soon"},
		{"subnet that failed", subnet + "metadata: {}\nstatus: {conditions: [{type: Ready, status: 'False', reason: Conflict, message: taken}]}", "Degraded", "taken"},
		{"subnet by phase", subnet + "metadata: {}\nstatus: {phase: Bound}", "Healthy", "Bound"},
		{"subnet by phase, pending", subnet + "metadata: {}\nstatus: {phase: Pending}", "Progressing", "Pending"},
		{"subnet by phase, failed", subnet + "metadata: {}\nstatus: {phase: Failed}", "Degraded", "Failed"},
		{"subnet that goes", subnet + "metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}", "Progressing", "being deleted"},
	} {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(c.object), &o.Object); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		script, libs, err := vm.GetHealthScript(o)
		if err != nil || script == "" || libs {
			t.Fatalf("%s: script %q, %v", c.name, script, err)
		}
		got, err := vm.ExecuteHealthLua(o, script)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if string(got.Status) != c.status || got.Message != c.message {
			t.Errorf("%s: %s %q, want %s %q", c.name, got.Status, got.Message, c.status, c.message)
		}
	}
}
