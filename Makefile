# make run         set everything up and open the window
# make test        set everything up and run all tests
# make test-hard   run them on one core beside three busy processes, in a random order (SEED=N repeats an order)
# make test-fast   run the tests without the slow and the end-to-end ones
# make soak        run what takes minutes for a single test, and the tests of the window with its style sheet
# make lint        check style, types and imports
# make bench       measure; results go to benchmarks/results
# make pictures    take the pictures of the documentation and of tests/window/test_pictures.py again
# make clean       remove what these commands made
#
# `make run` installs the builds for NVIDIA GPUs if an NVIDIA driver is present. CUDA=1 or CUDA=0 overrides this.
# PYTHON=python3.12 names the Python to use; the default is chosen by resources/install/environment.sh.

VENV := .venv
TENSORFLOW := $(VENV)-tensorflow
BIN := $(VENV)/bin
PIP := -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
BUILDS := $(if $(filter 1,$(shell CUDA='$(CUDA)' sh resources/install/nvidia_driver.sh)),cuda,plain)

.PHONY: run test test-fast test-hard soak lint bench pictures clean

run: $(VENV)/run-$(BUILDS)
	@$(BIN)/trainyard

# Four processes on two cores: much of a test is waiting.
# The tests of a framework stay together (tests/conftest.py).
# After a crash of one of them, pytest-xdist would wait for ever for tests that no process has.
# With PYTHONDONTWRITEBYTECODE, each of the many processes would compile this project again.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest
PARALLEL := --numprocesses 4 --max-worker-restart 0

test: $(VENV)/test
	$(PYTEST) $(PARALLEL)

test-fast: $(VENV)/test
	$(PYTEST) $(PARALLEL) -m 'not e2e and not slow and not soak'

test-hard: $(VENV)/test
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m tests.hard $(SEED) $(PARALLEL)

soak: $(VENV)/test
	$(PYTEST) -m soak
	$(PYTEST) $(PARALLEL) -m 'window and not styled and not soak' --styled

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/test
	$(BIN)/python -m benchmarks

pictures: $(VENV)/test
	QT_QPA_PLATFORM=offscreen $(BIN)/python -m tests.pictures

clean:
	rm -rf $(VENV) $(TENSORFLOW) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

# One stamp file per set of packages. make installs the set again when pyproject.toml or constraints.txt has changed.
$(VENV)/run-plain: EXTRA := torch,tensorflow
$(VENV)/run-plain: REASON := No NVIDIA driver was found (or CUDA=0 is set), so no CUDA packages are chosen.
$(VENV)/run-cuda: EXTRA := torch
$(VENV)/run-cuda: REASON := An NVIDIA driver was found (or CUDA=1 is set), so PyTorch is installed in its default build, which uses CUDA.
$(VENV)/run-plain $(VENV)/run-cuda: SHOWN := window
$(VENV)/test: EXTRA := test
$(VENV)/dev: EXTRA := dev
$(VENV)/run-plain $(VENV)/run-cuda $(VENV)/test $(VENV)/dev: $(BIN)/python pyproject.toml constraints.txt
	@echo "$(if $(REASON),$(REASON) )Installing trainyard[$(EXTRA)] into $(VENV). The first time this takes a few minutes ..."
	@$(BIN)/python $(PIP) --editable '.[$(EXTRA)]'
	@sh resources/install/qt_libraries.sh $(BIN)/python $(SHOWN)
	-@$(if $(filter %-cuda,$@),$(BIN)/python resources/install/gpu_builds.py torch)
	@$(if $(filter %/test,$@),$(BIN)/python -m tests.support.packages)
	@touch $@

# The CUDA packages of TensorFlow and of PyTorch overwrite each other's files: see docs/installing.md.
$(VENV)/run-cuda: $(TENSORFLOW)/cuda
$(TENSORFLOW)/cuda: $(TENSORFLOW)/bin/python constraints.txt
	@echo "An NVIDIA driver was found (or CUDA=1 is set), so TensorFlow is installed with its CUDA packages (and-cuda) into $(TENSORFLOW). The first time this downloads some gigabytes ..."
	@$(TENSORFLOW)/bin/python $(PIP) "tensorflow[and-cuda]; python_version < '3.14'"
	-@$(TENSORFLOW)/bin/python resources/install/gpu_builds.py tensorflow
	@touch $@

$(BIN)/python $(TENSORFLOW)/bin/python:
	@sh resources/install/environment.sh '$(@:/bin/python=)' '$(PYTHON)'
