# The commands of this house; `make` alone lists them. The work is done by cargo and by the scripts in tools/.

PYTHON ?= /usr/bin/python3
BENCH_ARGS ?=
export PATH := $(PATH):$(HOME)/.cargo/bin

.DEFAULT_GOAL := help
.PHONY: help build package demo test test-guest soak soak-govern soak-pool lint fmt doc docs-figures fuzz \
	bench bench-tail bench-cost bench-engine bench-lab bench-fairness bench-accuracy bench-fidelity bench-kernel \
	bench-watermark bench-isolation bench-looking bench-tls bench-growth bench-packages

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the weir command: target/release/weir
	@tools/packages build
	cargo build --locked --release -p weir-cli

package: ## a Debian package and a static binary of a release build, in target/package
	@tools/package

demo: build ## serve an emulated disk to two tenants and show how long they wait (no root, under a minute)
	@$(or $(CARGO_TARGET_DIR),target)/release/weir demo

test: ## everything that must hold: format, lints, documentation, tests, fuzzing, licences
	@tools/test

test-guest: ## of the tests those with a guest: the kernel's NBD client and limits, vhost-user-blk (part of make test)
	@tools/packages test || [ $$? = 77 ]
	cargo test --locked -p weir-tests --test e2e -- govern_guest:: kernel_client:: kernel_limits:: vhost_user::

soak: ## the device thread in simulated worlds with faults: SEEDS of them from SEED on
	@SEED="$(SEED)" SEEDS="$(SEEDS)" tools/soak

soak-pool: ## servers that share limits in simulated worlds with faults, likewise
	@SEED="$(SEED)" SEEDS="$(SEEDS)" tools/soak pool

soak-govern: ## the governor over random mixes of tenants, disks and kernels: SEEDS=FROM..TO
	GOVERN_SEEDS="$(or $(SEEDS),0..1000)" cargo test --locked -p weir-lab --test govern -- --ignored --nocapture

bench: bench-engine bench-tail bench-cost bench-fairness bench-accuracy bench-fidelity bench-kernel bench-watermark bench-isolation bench-looking bench-tls ## all comparisons with peers

bench-tail: bench-packages ## latency of the blk-throttle job under a limit
	$(PYTHON) bench/tail.py $(BENCH_ARGS)

bench-cost: bench-packages ## server CPU per million reads
	$(PYTHON) bench/cost.py $(BENCH_ARGS)

bench-fairness: bench-packages ## many clients inside one limit
	$(PYTHON) bench/fairness.py $(BENCH_ARGS)

bench-accuracy: bench-packages ## achieved rate over limit
	$(PYTHON) bench/accuracy.py $(BENCH_ARGS)

bench-fidelity: bench-packages ## the lab against weir serve and the kernel (root, for the kernel)
	$(PYTHON) bench/fidelity.py $(BENCH_ARGS)

bench-kernel: bench-packages ## BFQ against the kernel's schedulers on the same disk (root, for the kernel)
	$(PYTHON) bench/kernel.py $(BENCH_ARGS)

bench-watermark: bench-packages ## io-throttle's eight experiments, and the kernel's hard limits (root, for the kernel)
	$(PYTHON) bench/watermark.py $(BENCH_ARGS)

bench-isolation: bench-packages ## overhead, fairness, priority, bursts: Weir and the kernel's knobs (root, for the kernel)
	$(PYTHON) bench/isolation.py $(BENCH_ARGS)

bench-looking: bench-packages ## what scrapes, status and top cost tenants, beside 20,000 cgroups
	$(PYTHON) bench/looking.py $(BENCH_ARGS)

bench-tls: bench-packages ## TLS beside nbdkit's
	$(PYTHON) bench/tls.py $(BENCH_ARGS)

bench-lab: ## simulated requests a second, and how that goes down with cgroups (WEIR_TRACE=FILE for a trace)
	cargo bench --locked -p weir-lab

bench-growth: ## the curve of the lab's time over 40 to 100,000 processes
	$(PYTHON) bench/growth.py $(BENCH_ARGS)

bench-engine: ## the engine alone: instructions, time and source files per request, bytes per idle cgroup
	@tools/packages bench || [ $$? = 77 ]
	cargo bench --locked -p weir-engine
	@tools/callgrind-files || [ $$? = 77 ]

bench-packages: build
	@tools/packages bench || [ $$? = 77 ]

fmt: ## format the Rust code
	cargo fmt --all

lint: ## clippy and shellcheck, warnings denied
	cargo clippy --locked --workspace --all-targets -- -D warnings
	@tools/lint-scripts || [ $$? = 77 ]

doc: ## the crates' documentation, and the guide if mdbook is installed
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps
	@if command -v mdbook >/dev/null; then mdbook build docs; else echo "mdbook is not installed: the guide is in docs"; fi

docs-figures: ## write anew what the manual shows of commands' output (make test compares it)
	WEIR_DOCS=write cargo test --locked --quiet -p weir-cli --test cli docs::printed

fuzz: ## fuzz for ten minutes
	@tools/fuzz 600
