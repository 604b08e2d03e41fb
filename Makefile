# A front for CMake, CTest and the scripts; the presets of CMakePresets.json do the work.

PREFIX ?= /usr/local
ARGS ?=
DEVICE ?= cpu

# Warnings are errors in CI only, so that another compiler's new warning breaks nobody's build.
WERROR := $(if $(filter true,$(CI)),ON,OFF)

configure = @cmake --preset $(1) -DTESSERA_WERROR=$(WERROR) >/dev/null
heading = @printf '\n== %s\n' '$(1)'

.DEFAULT_GOAL := build
# The steps run in the order written; ninja and ctest do the parallel work.
.NOTPARALLEL:
.PHONY: help build demo test test-release test-asan test-tsan test-consumer bench lint analyze format install clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

build: ## set up and build the library and everything around it
	@scripts/setup build
	$(call configure,release)
	@cmake --build --preset release

demo: ## set up, build and run the demo (ARGS= for its arguments)
	@scripts/setup build
	$(call configure,release)
	@cmake --build --preset release --target tessera_demo
	@build/release/bin/tessera_demo $(ARGS)

test: test-release test-asan test-tsan test-consumer ## set up, build and run all tests
	@printf '\n== all passed: tests, address+undefined sanitizers, thread sanitizer, installed package\n'

test-release: ## all tests, g++
	$(call heading,tests: g++ release)
	@scripts/setup build test
	$(call configure,release)
	@cmake --build --preset release --target all all_verify_interface_header_sets
	@ctest --preset release

test-asan: ## the runtime's tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(call heading,runtime tests: address and undefined behaviour sanitizers)
	@scripts/setup build test
	$(call configure,asan)
	@cmake --build --preset asan
	@ctest --preset asan

test-tsan: ## the runtime's tests under ThreadSanitizer
	$(call heading,runtime tests: thread sanitizer)
	@scripts/setup build test
	$(call configure,tsan)
	@cmake --build --preset tsan
	@ctest --preset tsan

test-consumer: ## install, then build examples/consumer against the installed package
	$(call heading,installed package: find_package and pkg-config)
	@scripts/setup build
	$(call configure,release)
	@cmake --build --preset release
	@scripts/check-consumer build/release

bench: ## set up, build and run the benchmark, write build/bench.json (DEVICE=vulkan, opencl or gles for a GPU, ARGS=)
	@scripts/setup build bench
	$(call configure,release)
	@cmake --build --preset release --target tessera_bench
	@build/release/bin/tessera_bench --device $(DEVICE) --json build/bench.json $(ARGS)

lint: ## check the formatting and run clang-tidy
	@scripts/setup build lint
	$(call configure,clang)
	@cmake --build --preset clang --target tessera_emitter_version
	@scripts/lint build/clang $(CHECKS)

analyze: CHECKS = '-*,clang-analyzer-*,-clang-analyzer-cplusplus.NewDelete*,-clang-analyzer-optin.*,-clang-analyzer-security.*'
analyze: lint ## the same with the checks of clang's analyzer instead, which take long

format: ## format all sources in place
	@scripts/setup lint
	@scripts/format -i

install: build ## install under PREFIX (default /usr/local)
	@cmake --install build/release --prefix "$(PREFIX)"

clean: ## remove all that was built
	rm -rf build
