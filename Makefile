# make run     sets everything up and opens the panel
# make test    sets everything up and runs all tests
# make lint    style, types, and who may import whom
# make bench   measures; results go to tests/benchmarks/results
# make clean   removes what these made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: run test lint bench clean

run: $(VENV)/run
	@$(BIN)/trainyard

test: $(VENV)/test
	$(BIN)/python -m pytest

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/test
	$(BIN)/python -m tests.benchmarks

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

# One stamp per set of packages: it is made anew when what the project asks for has changed.
$(VENV)/run: EXTRA := torch
$(VENV)/run: SHOWN := window
$(VENV)/test: EXTRA := test
$(VENV)/dev: EXTRA := dev
$(VENV)/run $(VENV)/test $(VENV)/dev: $(BIN)/python pyproject.toml constraints.txt
	@echo "Installing trainyard[$(EXTRA)] into $(VENV): a few minutes the first time ..."
	@$(INSTALL) --editable '.[$(EXTRA)]'
	@sh tools/qt_libraries.sh $(BIN)/python $(SHOWN)
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Trainyard needs Python 3.11 or later, and $(PYTHON) is older or missing: name another with make PYTHON=python3.12 ..." >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "$(PYTHON) cannot make a virtual environment: install its venv module (Debian, Ubuntu: apt install python3-venv)." >&2; exit 2; }
