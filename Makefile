# Needs make and Python 3.11 or later; everything else goes into $(VENV).
PYTHON ?= python3
VENV ?= .venv

INSTALLED := $(VENV)/.installed
BIN := $(VENV)/bin
MLINTER_RULES := $(VENV)/mlinter_rules.toml

.PHONY: help install demo page docs lint test clean
.DELETE_ON_ERROR:

help:
	@echo "make install   create $(VENV) with everything that training and the tests need"
	@echo "make demo      train a small model and show what it translates (DEMO_ARGS is passed on)"
	@echo "make page      serve a page on which a model translates (PAGE_ARGS is passed on)"
	@echo "make docs      build the documentation as a site, in build/site"
	@echo "make lint      style, types, the order of imports and the library's own model linter"
	@echo "make test      install, lint, and every test but those marked slow"
	@echo "make clean     remove $(VENV) and what the tools left behind; runs/ stays"

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or later is needed, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1);" \
			"name another one: make install PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -c constraints.txt \
		-e ".[train,adapters,export,parsing,plot,sentences,serve,docs,dev]"
	@touch $@

demo: install
	$(BIN)/python training/run.py demo $(DEMO_ARGS)

page: install
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[page]"
	$(BIN)/python demo/app.py $(PAGE_ARGS)

# Not --quiet, which lets broken links and anchors pass. The variable silences an announcement.
docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "The site is in build/site. To read it: $(BIN)/python -m http.server -d build/site"

# Two rules of the model linter are about the library's own repository and have no switch, so its
# table of rules is copied with them off: TRF028 (licence text on top of each file) and TRF057
# (docstrings made by @auto_docstring).
$(MLINTER_RULES): $(INSTALLED) Makefile
	@sed -e '/^\[rules\.TRF028\]/,/^default_enabled/s/^default_enabled = true/default_enabled = false/' \
		-e '/^\[rules\.TRF057\]/,/^default_enabled/s/^default_enabled = true/default_enabled = false/' \
		"$$($(BIN)/python -c 'import mlinter; print(mlinter.__path__[0])')/rules.toml" > $@

lint: $(MLINTER_RULES)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m mlinter --no-cache --no-progress --rules-toml $(MLINTER_RULES) vaswani_hf

# One thread for each process: where threads outnumber cores, small models run many times slower. A
# file's tests stay together, or each process would make the file's models anew. The slowest are
# listed, as CONTRIBUTING.md says what a test may cost.
test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --dist loadfile --durations 15 -n \
		$$($(BIN)/python -c 'from vaswani_hf.processor import available_cores as n; print(min(n(), 8))')

clean:
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
