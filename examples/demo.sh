#!/bin/sh
# A tenants repository from nothing to manifests. Run by make demo with the path of the binary.
set -eu
copyhold=${1:-copyhold}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

run() {
	echo
	echo "\$ copyhold $*"
	"$copyhold" "$@" 2>&1
}

run init
mkdir -p tenants/photon-prod
cat >tenants/photon-prod/network.yaml <<'REQUEST'
apiVersion: copyhold.dev/v1alpha1
kind: SubnetRequest
metadata:
  name: production
spec:
  cidr: 10.100.0.0/24
  gateway: 10.100.0.1
REQUEST
echo
echo "\$ cat tenants/photon-prod/network.yaml"
cat tenants/photon-prod/network.yaml
run new cluster photon-prod/solar --tier kubeadm
echo
echo "\$ cat tenants/photon-prod/solar.yaml"
cat tenants/photon-prod/solar.yaml
run allocate
run check
run render tenants/photon-prod
