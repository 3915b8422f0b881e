# make demo       build, make a tenants repository in a temporary folder, render it
# make test       everything: format, vet, linter, all tests
# make cmp        copyhold under Argo CD's real plugin server: part of make test
# make controlplane  what copyhold foretells, done by Cluster API on a real API server: part of make test
# make test-long  2,000 random edits against Cluster API's own reconciler, where make test looks at 200
# make test-fast  the inner loop: packages that need no heavy library
# make bench      speed: wall, CPU and peak memory of the real command
# make update     rewrite golden files and script expectations
# make crds       rewrite the provider schemas of the built-in catalog from the providers' Go modules
#
# Nothing is written into the work tree but .bin/. Compiled packages are kept where go env GOCACHE says; the first build of Cluster
# API's engine takes minutes, so the flags below are the same everywhere.

export CGO_ENABLED = 0
export GOFLAGS ?= -buildvcs=false

pure = ./render/diag ./render/strict ./render/request ./render/manifest ./catalog/ledger
tool = go tool -modfile=tests/tools/go.mod

.PHONY: build demo test test-long cmp controlplane test-fast race lint bench update crds

build:
	@mkdir -p .bin
	go build -o .bin/copyhold ./cmd/copyhold

demo: build
	@.bin/copyhold version
	@sh examples/demo.sh "$(CURDIR)/.bin/copyhold"

test: lint race
	go test -timeout 30m ./...
	@$(MAKE) --no-print-directory cmp
	@$(MAKE) --no-print-directory controlplane

# A module of its own: Argo CD's libraries and ours cannot be compiled together. make cmp ARGOCD_MAJOR=3 takes Argo CD 3's server.
cmp:
	@echo "tests/cmp: the first build of Argo CD's plugin server takes minutes; it is kept in Go's build cache and the user's cache folder"
	cd tests/cmp && GOWORK=off go vet ./... && GOWORK=off go test -count=1 ./...

# A module of its own, with the API server among its tools. It says what takes how long; CONTROLPLANE_LOGS=DIR keeps the programs' logs.
controlplane:
	@echo "tests/controlplane: the first build of the API server takes minutes; it is kept in the user's cache folder"
	cd tests/controlplane && GOWORK=off go vet ./... && GOWORK=off go test -count=1 -timeout 60m

# SEED=N looks at other edits; a failing run prints the seed it had.
test-long:
	go test ./render/topology -run PredictionsComeTrue -count=1 -timeout 60m -v -args -pairs 2000 $(if $(SEED),-seed $(SEED))

test-fast:
	go test $(pure)

# The race detector needs a C compiler.
race:
	@command -v cc >/dev/null || { apt-get update -q && apt-get install -q -y --no-install-recommends gcc libc6-dev; }
	CGO_ENABLED=1 go test -race $(pure)

lint:
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "not formatted:"; echo "$$out"; exit 1; fi
	go vet ./...
	$(tool) staticcheck ./...

bench: build
	go run ./tests/bench -copyhold .bin/copyhold
	cd tests/cmp && GOWORK=off go test . -run NONE -bench . -benchtime 11x

update:
	go test ./render/... ./catalog/... ./plugin ./tests -update

crds:
	go run ./tests/crds catalog/builtin/files/catalog/crds catalog/builtin/tiers/crds
