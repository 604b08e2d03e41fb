# A front for CMake, CTest and the scripts; the presets of CMakePresets.json do the work.

PREFIX ?= /usr/local
ARGS ?=
DEVICE ?= cpu

# Warnings are errors in CI only, so that another compiler's new warning breaks nobody's build.
WERROR := $(if $(filter true,$(CI)),ON,OFF)

# Which random numbers and which of the sampled cases the tests try: others with each commit. A failure prints it.
ifndef TESSERA_TEST_SEED
TESSERA_TEST_SEED := $(shell printf '%d' "0x$$(git rev-parse --short=7 HEAD 2>/dev/null || echo 1)")
endif
export TESSERA_TEST_SEED

begin = @scripts/part --begin
part = @scripts/part $(1)
summary = @scripts/part --summary '$(1)'
setup = $(call part,setup) scripts/setup $(1)
configure = $(call part,configure) sh -c 'cmake --preset $(1) -DTESSERA_WERROR=$(WERROR) >/dev/null'
heading = @printf '\n== %s\n' '$(1)'

.DEFAULT_GOAL := build
# The steps run in the order written; ninja and ctest do the parallel work.
.NOTPARALLEL:
.PHONY: help build demo test test-all test-release test-sanitizers test-asan test-tsan test-consumer test-elixir \
        test-clang test-arm64 bench bench-elixir lint analyze format install clean begin

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile

begin:
	$(begin)

build: ## set up and build the library, the examples and the tests
	$(call setup,build)
	$(call configure,release)
	$(call part,build) cmake --build --preset release

demo: begin ## set up, build and run the demo (ARGS= for its arguments)
	$(call setup,build)
	$(call configure,release)
	$(call part,build) cmake --build --preset release --target tessera_demo
	$(call part,run) build/release/bin/tessera_demo $(ARGS)
	$(call summary,demo)

test: begin test-release test-consumer test-elixir ## set up, build and run all tests, with a sample of the random and repeated ones
	$(call summary,tests and installed package and Elixir passed)

test-sanitizers: begin test-asan test-tsan ## the runtime's tests under the address, undefined behaviour and thread sanitizers
	$(call summary,sanitizers passed)

test-all: export TESSERA_TEST_DEPTH = 100
test-all: SANITIZED = -all
test-all: TARGETS = tessera_bench
test-all: begin test-release test-consumer test-elixir test-asan test-tsan test-clang ## every test and every case at full depth, which takes long
	$(call summary,everything passed at full depth)

test-release: ## all tests, g++
	$(call heading,tests: g++ release (seed $(TESSERA_TEST_SEED)))
	$(call setup,build test)
	$(call configure,release)
	$(call part,build) cmake --build --preset release --target all all_verify_interface_header_sets $(TARGETS)
	$(call part,tests) ctest --preset release

test-asan: ## the runtime's tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(call heading,runtime tests: address and undefined behaviour sanitizers)
	$(call setup,build test)
	$(call configure,asan)
	$(call part,asan-build) cmake --build --preset asan$(SANITIZED)
	$(call part,asan-tests) ctest --preset asan$(SANITIZED)

test-tsan: ## the runtime's tests under ThreadSanitizer
	$(call heading,runtime tests: thread sanitizer)
	$(call setup,build test)
	$(call configure,tsan)
	$(call part,tsan-build) cmake --build --preset tsan$(SANITIZED)
	$(call part,tsan-tests) ctest --preset tsan$(SANITIZED)

test-consumer: ## install, then build examples/consumer against the installed package
	$(call heading,installed package: find_package and pkg-config)
	$(call setup,build)
	$(call configure,release)
	$(call part,build) cmake --build --preset release --target all
	$(call part,package) scripts/check-consumer build/release

test-elixir: export TESSERA_NIF_FLAGS := $(if $(filter ON,$(WERROR)),-Werror)
test-elixir: ## the Elixir interface
	$(call heading,Elixir)
	$(call setup,build elixir)
	$(call configure,release)
	$(call part,build) cmake --build --preset release --target tessera_c tessera_plugins
	$(call part,elixir) scripts/check-elixir build/release

test-clang: ## compile the library with clang++ and without precompiled headers
	$(call heading,clang++ without precompiled headers)
	$(call setup,build lint)
	$(call configure,clang)
	$(call part,clang-build) cmake --build --preset clang --target tessera tessera_plugins

test-arm64: begin ## cross-build for Linux on AArch64; the runtime's and the compiler's tests in QEMU, sampled
	$(call heading,AArch64 in QEMU (seed $(TESSERA_TEST_SEED)))
	$(call setup,build arm64)
	$(call part,sysroot) scripts/arm64-sysroot build/arm64-sysroot
	$(call configure,arm64)
	$(call part,build) cmake --build --preset arm64
	$(call part,tests) ctest --preset arm64
	$(call summary,AArch64 passed)

bench: $(if $(filter cpu,$(DEVICE)),bench-elixir) ## set up, build and run the benchmark, write build/bench.json (DEVICE=vulkan, opencl or gles for a GPU, ARGS=)
	$(call setup,build bench)
	$(call configure,release)
	@cmake --build --preset release --target tessera_bench
	@build/release/bin/tessera_bench --device $(DEVICE) --json build/bench.json $(ARGS)

bench-elixir: ## only that of the Elixir interface
	$(call setup,build elixir)
	$(call configure,release)
	@cmake --build --preset release --target tessera_c tessera_plugins
	@cd bindings/elixir && TESSERA_BUILD_DIR=../../build/release MIX_ENV=prod LC_ALL=C.UTF-8 mix run bench/bench.exs

lint: begin ## check the formatting and run clang-tidy
	$(call setup,build lint)
	$(call configure,clang)
	$(call part,build) cmake --build --preset clang --target tessera_emitter_version
	$(call part,format) scripts/format --dry-run -Werror
	$(call part,clang-tidy) scripts/lint build/clang $(CHECKS)
	$(call summary,no findings)

analyze: CHECKS = '-*,clang-analyzer-*,-clang-analyzer-cplusplus.NewDelete*,-clang-analyzer-optin.*,-clang-analyzer-security.*'
analyze: lint ## the same with the checks of clang's analyzer instead, which take long

format: ## format all sources in place
	@scripts/setup lint
	@scripts/format -i

install: build ## install under PREFIX (default /usr/local)
	@cmake --install build/release --prefix "$(PREFIX)"

clean: ## remove all that was built
	rm -rf build
