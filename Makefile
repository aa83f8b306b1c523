# What a person does with the tree; `make` alone lists it.
PYTHON ?=
PIP_EXTRA_INDEX ?=
PREFIX ?= /usr/local
DEVICE ?= cpu
JOBS ?= $(shell nproc)
DEMO ?= build/comera compare configs/demo.toml
DEMO_ARGS ?=

export PIP_EXTRA_INDEX PYTHON
# Small parallel regions on a busy machine: threads that spin at their ends would slow tests tenfold.
export OMP_WAIT_POLICY := $(if $(OMP_WAIT_POLICY),$(OMP_WAIT_POLICY),passive)
# Lets ccache serve one clone from what another compiled.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

python := $(if $(PYTHON),$(abspath $(shell command -v $(PYTHON))),$(CURDIR)/.venv/bin/python)

.DEFAULT_GOAL := help
.PHONY: help setup setup-test configure build everything demo test install format check-format asan-test isa-test clean

define HELP
make demo           train compressed models on text this machine has, beside a dense one; a table at the end
make build          set up what is missing and build build/comera
make everything     tests and bench/ too
make test           build and run all tests
make install        install the library, its headers and the command line under PREFIX
make format         format the sources; check-format only looks
make asan-test      kernel, operator and parser tests with the address and undefined-behaviour sanitizers
make isa-test       kernel and operator tests with every instruction set the machine has
make clean          remove what was built (not .venv)

Set up installs missing Debian packages when run as root, and makes .venv with the torch of requirements.txt.
  PYTHON=path           use this Python, which has its own torch 2.11 or later; no .venv
  PIP_EXTRA_INDEX=url   one more package index for pip. Without it pip may choose a CUDA build of torch (some GB);
                        name PyTorch's index of CPU builds to get the small one.
  PREFIX=folder         of `make install` [$(PREFIX)]
  DEVICE=cuda           `make test` also runs on the GPU [$(DEVICE)]
  JOBS=n                compilers at a time, about 2 GB of memory each [$(JOBS)]
  DEMO_ARGS="..."       more arguments for the demo: $(DEMO)
endef

help:
	$(info $(HELP))
	@:

setup:
	@scripts/setup.sh build
setup-test:
	@scripts/setup.sh test

# $(call configure,folder,preset): ninja configures again by itself when a CMake file changes; another Python
# needs a fresh start.
configure = [ -f $(1)/build.ninja ] && [ "$$(cat $(1)/python 2>/dev/null)" = "$(python)" ] || { \
  echo "configuring $(1)"; mkdir -p $(1); \
  cmake --fresh --preset $(2) -DCOMERA_PYTHON=$(python) > $(1)/configure.log 2>&1 || { cat $(1)/configure.log; exit 1; }; \
  echo "$(python)" > $(1)/python; }

configure: setup
	@$(call configure,build,release)

build: configure
	ninja -C build -j $(JOBS) comera

everything: configure
	ninja -C build -j $(JOBS)

demo: build
	COMERA_PYTHON=$(python) $(DEMO) $(DEMO_ARGS)

test: setup-test everything
	COMERA_TEST_DEVICE=$(DEVICE) ctest --test-dir build --output-on-failure

install: build
	cmake --install build --prefix $(PREFIX)

asan-test: setup-test
	@$(call configure,build-asan,asan)
	ninja -C build-asan -j $(JOBS) labelled_tests
	ASAN_OPTIONS=detect_leaks=0 ctest --test-dir build-asan --output-on-failure -L 'kernel|operator|parser'

isa-test: everything
	scripts/isa_test.sh $(python)

format:
	scripts/format.sh
check-format:
	scripts/format.sh --check

clean:
	rm -rf build build-asan build-debug
