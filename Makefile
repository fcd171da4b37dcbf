# make ladder and make test do all their own set-up, in $(VENV), on a machine with Python 3.11 or newer.
#
#   PYTHON=python3.12   the interpreter to start from
#   CUDA=12             the bindings and NVRTC of CUDA 12 instead of 13
#   VENV=               no set-up: use $(PYTHON) as it is, with the packages that it has
#   ARGS="..."          more options for ladder run

PYTHON ?= python3
CUDA ?= 13
VENV ?= .venv
REPORT ?= docs/report
ARGS ?=
# What make publish counts without a GPU: what lanes ask for, which no counter of a GPU tells.
PROFILE ?= h200
ASKED ?= 4096x4096x4096
# What make publish shows of the experiments: the card's newest file of them.
EXPERIMENTS ?= $(lastword $(sort $(wildcard $(dir $(RECORD))*-experiments.json)))
# A card on which a larger tile goes from one limit to another; where DRAM is faster, the SM binds every tile.
TURNS ?= t4
WITH_EXPERIMENTS = $(addprefix --experiments ,$(sort $(wildcard $(REPORT)/experiments*.json)))
# Enough to keep two cores busy; CI machines have no more.
TEST_JOBS ?= 2

ifeq ($(filter 12 13,$(CUDA)),)
$(error CUDA=$(CUDA): there are bindings for CUDA 12 and 13)
endif

ifeq ($(strip $(VENV)),)
RUN := PYTHONPATH="$(CURDIR)$${PYTHONPATH:+:$$PYTHONPATH}" $(PYTHON)
READY :=
else
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready-cu$(CUDA)
endif

.PHONY: help setup ladder report experiments publish pages test lint test-gpu clean distclean
.DEFAULT_GOAL := help

help: ## Say what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Make the environment, with everything in it

$(VENV)/.ready-cu$(CUDA): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "no $(PYTHON) here: install Python 3.11 or newer, or name one: make PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit("the ladder needs Python 3.11 or newer and $(PYTHON) is %d.%d: name another, make PYTHON=python3.12" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "$(PYTHON) cannot make an environment: install its venv module (Debian: apt install python3-venv)" >&2; exit 2; }
	$(VENV)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(VENV)/bin/python -m pip install --quiet --editable ".[cu$(CUDA)]" --group dev
	@rm -f $(VENV)/.ready-cu*
	@touch $@

ladder: $(READY) ## Run every rung, write the report, print its path
	@status=0; \
	$(RUN) -m ladder run --scaling --json $(REPORT)/results.json $(ARGS) || status=$$?; \
	if [ $$status -gt 1 ]; then exit $$status; fi; \
	PYTHONPATH="$(CURDIR)$${PYTHONPATH:+:$$PYTHONPATH}" $(RUN) bench/peers.py --into $(REPORT)/results.json || status=1; \
	if git ls-files --error-unmatch $(REPORT) >/dev/null 2>&1; then \
		echo "$(REPORT) now tells of this machine; git checkout $(REPORT) brings the committed report back."; \
	fi; \
	$(RUN) -m ladder report $(REPORT)/results.json --out $(REPORT) || exit $$?; \
	exit $$status

report: $(READY) ## Write the report again from the last run
	@$(RUN) -m ladder report $(REPORT)/results.json $(WITH_EXPERIMENTS) --out $(REPORT)

experiments: $(READY) ## Run the experiments, and make the report again with them
	$(RUN) -m ladder experiment --json $(REPORT)/experiments.json $(ARGS)
	@$(MAKE) --no-print-directory report

publish: $(READY) ## Write docs/report/, README's figure and table, and docs/rungs/ from RECORD=bench/results/CARD/FILE.json
	@test -f "$(RECORD)" || { echo "name the record to publish: make publish RECORD=bench/results/CARD/FILE.json" >&2; exit 2; }
	cp "$(RECORD)" docs/report/results.json
	$(RUN) -m ladder run --backend emulated --profile $(PROFILE) --shape $(ASKED) --json docs/report/emulated.json || test $$? -eq 1
	@if test -n "$(EXPERIMENTS)"; then cp "$(EXPERIMENTS)" docs/report/experiments.json; else rm -f docs/report/experiments.json; fi
	$(RUN) -m ladder experiment transition --backend emulated --profile $(TURNS) --json docs/report/experiments-$(TURNS).json
	$(RUN) -m ladder report docs/report/results.json docs/report/emulated.json $(addprefix --experiments ,$(if $(EXPERIMENTS),docs/report/experiments.json) docs/report/experiments-$(TURNS).json) --out docs/report
	$(RUN) -m bench.readme
	$(RUN) -m bench.rung_pages

pages: $(READY) ## Write docs/rungs/ and the numbers quoted in docs/ again from the kernels and the committed records
	$(RUN) -m bench.rung_pages
	$(RUN) -m bench.quoted

test: lint ## Lint, types, layers, and every test that needs no GPU
	$(RUN) -m pytest -m "not gpu" -n $(TEST_JOBS)

lint: $(READY) ## Style, types, and imports that point downward
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'

test-gpu: $(READY) ## Every test that needs a GPU
	LADDER_REQUIRE_GPU=1 $(RUN) -m pytest -m gpu

clean: ## Remove what tools and builds left behind
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
	find ladder tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## The same, and the environment
	rm -rf $(if $(strip $(VENV)),$(VENV))
