# Everything a person does with this repository. Each target does all of its own set-up.
PYTHON ?= python3
VENV := .venv
# packages come without bytecode, so each must be compiled once and kept: who forbids that compiles torch in every process
unexport PYTHONDONTWRITEBYTECODE
PIP := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
UV := $(VENV)/bin/uv pip install --quiet --python $(VENV)/bin/python -c constraints.txt
# torch by pip, which may have been told where a small build lies; the rest by uv, which takes a tenth of the time
define installed
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch torchvision
	{ $(PIP) uv && $(UV) -e '$(1)'; } || $(PIP) -e '$(1)'
	$(VENV)/bin/glasshouse weights install
endef

.PHONY: help setup try audit test tests coverage soak lint bench docs clean system
.DEFAULT_GOAL := help

help: ## what there is
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(VENV)/.installed ## virtual environment, pinned packages, published weights

$(VENV)/.installed: pyproject.toml constraints.txt
	$(call installed,.)
	touch $@

$(VENV)/.tested: pyproject.toml constraints.txt
	$(call installed,.[test])
	touch $@ $(VENV)/.installed

try: setup ## read photographs off a shared gradient, in seconds, and write a report
	$(VENV)/bin/glasshouse audit --model mlp --attack fc_inversion --out try

audit: setup ## attack a small model's gradients of embedded photographs and write a report
	$(VENV)/bin/glasshouse audit --out audit

lint: $(VENV)/.tested ## style and types
	$(VENV)/bin/ruff check --quiet .
	$(VENV)/bin/ruff format --check --quiet .
	$(VENV)/bin/mypy

# what the tests of the page and of PostgreSQL need beyond pip; where it cannot be installed they skip and say why
system:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  ! { command -v chromium && ls /usr/lib/postgresql/*/bin/initdb; } >/dev/null 2>&1; then \
	  export DEBIAN_FRONTEND=noninteractive; \
	  { apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium postgresql; } >/dev/null 2>&1 || \
	  echo "chromium and postgresql cannot be installed: their tests are skipped"; fi

# what is not waiting for one another runs side by side
test: ## style, types and all tests
	@$(MAKE) --no-print-directory -j2 system $(VENV)/.tested
	@$(MAKE) --no-print-directory -j2 lint tests

# memory that is freed stays with its process: to get every large tensor anew from the system takes a little longer
tests: $(VENV)/.tested
	OMP_NUM_THREADS=1 MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=4294967296 \
	  $(VENV)/bin/pytest -n 4 --dist worksteal

# by itself, because watching every line makes the tests take a third more of the processors
coverage: system $(VENV)/.tested ## all tests with branch coverage, which must be 90 % at least
	OMP_NUM_THREADS=1 $(VENV)/bin/pytest -n 2 --dist worksteal --cov --cov-report=term

soak: system $(VENV)/.tested ## the long tests: kills, odd requests, the wheel in a fresh environment; writes docs/reliability.md
	$(VENV)/bin/python docs/generate_reliability.py

bench: $(VENV)/.tested ## speed, as ratios measured in one run; writes benchmarks/results and docs/benchmarks.md
	$(VENV)/bin/python benchmarks/run.py

docs: $(VENV)/.tested ## the documentation as a site, in site/index.html
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet
	@echo "site/index.html; with search: python3 -m http.server -d site"

clean: ## remove what the targets made
	rm -rf $(VENV) try audit build dist site
