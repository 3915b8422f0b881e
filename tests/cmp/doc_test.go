// Package cmp tests copyhold as Argo CD calls it. It runs the real command under Argo CD's real argocd-cmp-server, sends it a
// repository as the repo-server does, through Argo CD's own client code, and reads examples/argocd with Argo CD's own types.
//
// It is a module of its own: Argo CD and copyhold cannot be compiled with one set of Kubernetes libraries. So it runs the command, and
// imports nothing of it. The first build of the server takes minutes; the compiler's cache keeps what was compiled, and the programs
// are kept in the user's cache folder. Nothing is written into the work tree. With ARGOCD_MAJOR=3 it is the server of Argo CD 3.
package cmp
