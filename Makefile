# make run     sets everything up and opens the panel
# make test    sets everything up and runs all tests
# make lint    style, types, and who may import whom
# make bench   measures; results go to tests/benchmarks/results
# make clean   removes what these made
#
# Where an NVIDIA driver is present, `make run` installs the builds that use it; CUDA=1 or CUDA=0 overrides.

PYTHON ?= python3
VENV := .venv
TENSORFLOW := $(VENV)-tensorflow
BIN := $(VENV)/bin
PIP := -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
BUILDS := $(if $(filter 1,$(shell CUDA='$(CUDA)' sh tools/nvidia_driver.sh)),cuda,plain)

.PHONY: run test lint bench clean

run: $(VENV)/run-$(BUILDS)
	@$(BIN)/trainyard

test: $(VENV)/test
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/test
	$(BIN)/python -m tests.benchmarks

clean:
	rm -rf $(VENV) $(TENSORFLOW) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

# One stamp per set of packages: it is made anew when what the project asks for has changed.
$(VENV)/run-plain: EXTRA := torch,tensorflow
$(VENV)/run-plain: SAID := No NVIDIA driver is seen (or CUDA=0 was said), so nothing of CUDA is asked for.
$(VENV)/run-cuda: EXTRA := torch
$(VENV)/run-cuda: SAID := An NVIDIA driver is here (or CUDA=1 was said), so PyTorch comes as its default build, which uses CUDA.
$(VENV)/run-plain $(VENV)/run-cuda: SHOWN := window
$(VENV)/test: EXTRA := test
$(VENV)/dev: EXTRA := dev
$(VENV)/run-plain $(VENV)/run-cuda $(VENV)/test $(VENV)/dev: $(BIN)/python pyproject.toml constraints.txt
	@echo "$(if $(SAID),$(SAID) )Installing trainyard[$(EXTRA)] into $(VENV): a few minutes the first time ..."
	@$(BIN)/python $(PIP) --editable '.[$(EXTRA)]'
	@sh tools/qt_libraries.sh $(BIN)/python $(SHOWN)
	-@$(if $(filter %-cuda,$@),$(BIN)/python tools/gpu_builds.py torch)
	@touch $@

# The CUDA packages of TensorFlow and of PyTorch overwrite each other's files: docs/installing.md.
$(VENV)/run-cuda: $(TENSORFLOW)/cuda
$(TENSORFLOW)/cuda: $(TENSORFLOW)/bin/python constraints.txt
	@echo "An NVIDIA driver is here (or CUDA=1 was said), so TensorFlow comes with its CUDA packages (and-cuda). Installing it into $(TENSORFLOW): some gigabytes, the first time ..."
	@$(TENSORFLOW)/bin/python $(PIP) "tensorflow[and-cuda]; python_version < '3.14'"
	-@$(TENSORFLOW)/bin/python tools/gpu_builds.py tensorflow
	@touch $@

$(BIN)/python $(TENSORFLOW)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Trainyard needs Python 3.11 or later, and $(PYTHON) is older or missing: name another with make PYTHON=python3.12 ..." >&2; exit 2; }
	@$(PYTHON) -m venv $(@:/bin/python=) || { rm -rf $(@:/bin/python=); \
	  echo "$(PYTHON) cannot make a virtual environment: install its venv module (Debian, Ubuntu: apt install python3-venv)." >&2; exit 2; }
