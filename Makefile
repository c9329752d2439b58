# The two commands of the README are `make quickstart` and `make test`; the rest is for development.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -q -p no:cacheprovider
HARBOR_BASE_PYTHON ?= python3.12

.PHONY: quickstart test test-all check setup system harbor-env benchmarks clean

quickstart: setup system  ## set up, look at the machine, run the harness on real tasks: no key, no Docker
	$(BIN)/modularrsi doctor || true
	$(BIN)/modularrsi run evolution_pool/samples --agent oracle
	$(BIN)/modularrsi run evolution_pool/samples --model simulated --attempts 3

test: setup system  ## the default tests
	$(PYTEST)

test-all: setup system  ## what the default leaves out: slow, docker, harbor
	$(PYTEST) -m "slow or docker or harbor"

check: setup  ## lint and types
	$(BIN)/ruff check .
	$(BIN)/pyright

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.11 …" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

# tmux and bubblewrap are programs of the system. As root on Debian they are installed; elsewhere the command is printed.
system:
	@command -v tmux >/dev/null && command -v bwrap >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends tmux bubblewrap >/dev/null; \
	  else echo "needed: sudo apt-get install tmux bubblewrap   (or your system's packages of these names)"; exit 1; fi; }

harbor-env: .venv-harbor/.ready  ## the `harbor` extra, in an environment of its own

.venv-harbor/.ready: pyproject.toml
	$(HARBOR_BASE_PYTHON) -m venv .venv-harbor
	.venv-harbor/bin/python -m pip install --quiet --disable-pip-version-check -e '.[harbor,dev]'
	touch $@

benchmarks: setup  ## measure; prints ratios, asserts nothing
	for script in benchmarks/*.py; do $(BIN)/python $$script; done

clean:
	rm -rf $(VENV) .venv-harbor build dist
