# Every target sets itself up: a first `make demo` needs Python 3.11+, a C compiler and nothing else.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
DEMO   := dist/demo-q4
DEMO_NEEDS := $(wildcard examples/demo-model/* runtime/edgewise_runtime/*.py) \
              $(shell find compiler -name '*.py')
SHADERS := tests/shaders/node_modules/ready.stamp
NAMES  := runtime compiler sdk tools tests bench

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test test-full packages lint format bench clean
.DELETE_ON_ERROR:

help:
	@echo "make demo       compile the demo model for this CPU and chat with it"
	@echo "make test       the quick suite (minutes)"
	@echo "make test-full  every test at its full count, with the torch reference"
	@echo "make lint       ruff and mypy"
	@echo "make format     let ruff rewrite the sources"
	@echo "make bench      CPU benchmark; LLAMA=VENV adds llama.cpp, ARGS=... passes options"
	@echo "make clean      remove what make made"

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
	@echo "Installing the locked packages (about 200 MB; once)"
	@$(BIN)/python -m pip install --quiet --requirement requirements/dev.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/full.stamp: $(VENV)/ready.stamp requirements/full.lock
	@echo "Installing the torch reference (once)"
	@$(BIN)/python -m pip install --quiet --requirement requirements/full.lock
	@touch $@

# Mesa's lavapipe and Node, which are no Python packages.
packages:
	@tools/ensure_packages.sh

# Tint, to type-check shaders: Dawn for Node, of which only this platform's build is kept.
$(SHADERS): tests/shaders/package-lock.json tests/shaders/keep_platform.mjs | packages
	@echo "Installing the shader checker (130 MB of builds, 21 MB of which stay; once)"
	@cd tests/shaders && npm ci --loglevel=error >/dev/null && node keep_platform.mjs
	@touch $@

# Compiled again when the checkpoint, the compiler, a file format or a locked version changes.
$(DEMO)/bundle.json: $(DEMO_NEEDS) requirements/dev.lock | $(VENV)/ready.stamp
	@$(BIN)/edgewise compile examples/demo-model --target cpu --quant q4 -o $(DEMO)

demo: $(DEMO)/bundle.json
	@$(BIN)/edgewise chat $(DEMO)

test: $(VENV)/ready.stamp $(SHADERS) packages
	$(BIN)/python -m pytest

test-full: $(VENV)/full.stamp $(SHADERS) packages
	$(BIN)/python -m pytest -m "full or not full" --hypothesis-profile=full

lint: $(VENV)/ready.stamp
	$(BIN)/ruff check $(NAMES)
	$(BIN)/ruff format --check $(NAMES)
	$(BIN)/mypy

format: $(VENV)/ready.stamp
	$(BIN)/ruff check --fix $(NAMES)
	$(BIN)/ruff format $(NAMES)

bench: $(VENV)/ready.stamp
	$(BIN)/python bench/cpu.py $(if $(LLAMA),--llama $(LLAMA)) $(ARGS)

clean:
	rm -rf $(VENV) build dist tests/shaders/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find $(NAMES) -name __pycache__ -type d -exec rm -rf {} +
