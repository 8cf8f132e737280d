# One command from a fresh checkout to a result: `make demo`, which installs what the product
# needs, and `make test`, `make lint`, `make docs`, which install the rest.
# `make test` leaves out the long forms, which `make test-all` runs. WORKERS: processes.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
# Stamps of the three steps of an installation: uv, the product's packages, development's.
UV_STAMP := $(VENV)/.uv
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.installed
WORKERS ?= auto
# Bytecode is written, whatever the environment says: Python starts often.
export PYTHONDONTWRITEBYTECODE :=
PYTEST := $(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=loadfile
# Install by uv, or by pip where uv can't be had or finds no index. uv doesn't read pip's
# configuration, so its index is passed on.
INDEX = $$($(BIN)/pip config get global.index-url 2>/dev/null)
install_with = UV_DEFAULT_INDEX="$${UV_DEFAULT_INDEX:-$${PIP_INDEX_URL:-$(INDEX)}}" \
	  $(UV) pip install --python $(BIN)/python --quiet $(1) || $(BIN)/pip install --quiet $(1)

.PHONY: demo test test-all gate lint format docs package lock install clean

demo: $(RUNTIME)
	$(BIN)/informed run --config=configs/digits.py --workdir=runs/digits
	$(BIN)/informed report runs/digits

test: install
	$(PYTEST) -m "not slow and not long"

test-all: install gate
	$(PYTEST) -m "long or slow"

# XLA's compiler for NVIDIA's GPUs, from wheels. In a folder of its own: beside JAX it
# would be asked for a GPU at every start.
gate: build/gate/.installed

build/gate/.installed: requirements-gate.lock $(STAMP)
	rm -rf build/gate
	if [ "$$(uname -sm)" = "Linux x86_64" ]; then \
	  $(call install_with,--require-hashes --no-deps --target build/gate --requirement requirements-gate.lock); \
	else mkdir -p build/gate; fi
	touch $@

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site, tutorials executed, warnings are errors: docs/_build/html/index.html.
docs: install
	$(BIN)/python -m sphinx -W --keep-going --quiet -b html docs docs/_build/html
	@echo docs/_build/html/index.html

# Wheel and sdist; the wheel in an empty environment runs the demo from what it holds.
package:
	$(PYTHON) -m venv build/empty
	build/empty/bin/pip install --quiet build
	rm -rf dist && build/empty/bin/python -m build
	$(PYTHON) -m venv --clear build/empty
	build/empty/bin/pip install --quiet dist/*.whl
	cd build && empty/bin/informed run --config=digits --workdir=digits --quiet
	cd build && empty/bin/informed report digits

install: $(STAMP)

$(UV_STAMP): requirements-uv.lock
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Expected Python >= 3.11, got " + sys.version.split()[0] + ". Name one: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes --requirement requirements-uv.lock || \
	  echo "uv can't be had here: pip installs, which takes longer."
	touch $@

$(RUNTIME): requirements.lock pyproject.toml $(UV_STAMP)
	$(call install_with,--require-hashes --requirement requirements.lock)
	$(call install_with,--no-deps --editable .)
	touch $@

$(STAMP): requirements-dev.lock $(RUNTIME)
	$(call install_with,--require-hashes --requirement requirements-dev.lock)
	touch $@

# Resolve again after a change of dependencies. One file serves every supported Python.
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header
lock: $(UV_STAMP)
	echo uv | $(COMPILE) - --output-file requirements-uv.lock
	$(COMPILE) pyproject.toml --output-file requirements.lock
	$(COMPILE) pyproject.toml --extra dev --constraint requirements.lock --output-file requirements-dev.lock
	$(COMPILE) pyproject.toml --extra gate --constraint requirements-dev.lock | \
	  $(PYTHON) -c 'import re, sys; sys.stdout.write("".join(re.findall(r"^(?:jax-cuda|nvidia-cuda-nvcc).*\n(?:    .*\n)*", sys.stdin.read(), re.M)))' \
	  > requirements-gate.lock

clean:
	rm -rf $(VENV) build dist docs/_build
