# The commands of the house. `make` alone lists them.

.DEFAULT_GOAL := help
.PHONY: help clients demo foreign generated test test-k8s images release bench bench-service docs lint setup clean

help: ## List the commands
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /  make \1\t/' | expand -t 16

demo: ## Set up, build, then compile and run secp256k1 verification through the services
	@scripts/setup.sh build
	@scripts/demo.sh

test: ## Set up, then run every test; ends with the counts
	@echo "Two quiet cores take about an hour from nothing, half of it where all is built; here are $$(nproc)."
	@scripts/setup.sh test
	@scripts/test.sh

clients: ## Set up, then test the packages with their lowest and newest versions; what cannot be fetched is skipped
	@scripts/setup.sh test
	@clients/versions.sh || [ $$? -eq 77 ]

test-k8s: ## Set up, then install the chart on a real Kubernetes API server, push a release and verify it; not part of `make test`, its tools take long to build
	@scripts/setup.sh test
	@deploy/check/k8s.sh
	@deploy/check/signatures.sh

images: ## Set up, build for release, make the images: an OCI layout, bills of materials, provenance
	@scripts/setup.sh images
	@scripts/images.sh

release: ## VERSION=X.Y.Z [KEY=PEM]: make images, programs, the chart and checksums twice, compare, sign and verify them
	@scripts/setup.sh images
	@scripts/release.sh "$(VERSION)" "$(KEY)"

bench: ## Set up, build for release, print speed ratios against peers run in the same loop
	@scripts/setup.sh bench
	@scripts/bench.sh

bench-service: ## Set up, build for release, print what a call costs beside its script: latency, throughput, ratios to bare runs
	@scripts/setup.sh bench
	@scripts/bench-service.sh

docs: ## Make the book of all pages in target/book; mdbook is built once
	@scripts/docs.sh

foreign: ## Build ckb-debugger for WASI, ARM, Windows and macOS, and compare what it says under emulators; fetches compilers for them
	@scripts/setup.sh foreign
	@scripts/foreign.sh

lint: ## Set up, then formatting, clippy, house rules, docs, licences, shell scripts
	@scripts/setup.sh test
	@scripts/lint.sh

generated: ## Set up, then write every generated file: reference pages, code of the .proto files, schema, dashboards
	@scripts/setup.sh test
	@scripts/generated.sh

setup: ## Install every system package that building and testing need
	@scripts/setup.sh test

clean: ## Remove what cargo built
	@cargo clean
