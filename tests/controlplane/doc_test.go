// Package controlplane holds copyhold against what it speaks of: a real etcd, kube-apiserver and Cluster API, core and kubeadm bootstrap
// manager, with the CustomResourceDefinitions of the providers, all on loopback. What copyhold renders is applied as Argo CD applies it;
// what copyhold diff foretells is compared with the MachineSets, templates and control planes that come of it.
//
// It is a module of its own, with the API server among its tools, so it runs the command and imports nothing of it. The programs are
// built once and kept in the user's cache folder. Nothing is written into the work tree, and no process stays behind.
//
// Kamaji, KubeVirt and machines are not there: player plays their part, down to a Node for each Machine.
package controlplane
