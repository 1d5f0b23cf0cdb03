# Everything runs inside .venv, which the first target that needs it makes. Stamp files make a second run quick.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
JOBS   ?= 2
PROMPT ?= The capital of France is
OUT    ?= out

.DEFAULT_GOAL := help
.PHONY: help demo test pull pull-if-possible lint types requirements docs bench figures clean

help:
	@echo "make demo          set up, pull a real model and bring it up on every chip"
	@echo "make test          set up, pull a real model and run all tests"
	@echo "make pull          put SmolLM2-135M into the store"
	@echo "make lint          ruff: rules and format"
	@echo "make types         mypy --strict"
	@echo "make requirements  which test shows which numbered requirement"
	@echo "make docs          write the generated pages of docs/"
	@echo "make bench         measure the figures that we promise"
	@echo "make figures       measure what the README shows, llama.cpp beside it, and write it there"
	@echo "make clean         remove .venv, caches and out/"

demo: $(VENV)/.installed
	$(BIN)/bittern pull smollm2
	$(BIN)/bittern bringup smollm2 --prompt "$(PROMPT)" -n 32 --chips all --out $(OUT)

test: $(VENV)/.tests pull-if-possible
	$(BIN)/python -m pytest -n $(JOBS)

pull: $(VENV)/.installed
	$(BIN)/bittern pull smollm2

pull-if-possible: $(VENV)/.tests
	@$(BIN)/bittern pull smollm2 || echo "make: no real model; the tests that need one are skipped and say so" >&2

lint: $(VENV)/.tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.tests
	$(BIN)/mypy

requirements:
	@$(PYTHON) scripts/requirements.py

docs: $(VENV)/.installed
	$(BIN)/python scripts/docs.py

bench: $(VENV)/.tests
	bench/check

# In a quiet moment: the results that the README shows. BITTERN_PEERS names a Python with llama-cpp-python.
figures: $(VENV)/.tests
	@mkdir -p bench/results
	bench/check --json --quick > bench/results/check.part || [ $$? -eq 1 ]  # 1: a bound is missed
	@mv bench/results/check.part bench/results/check.json
	@if [ -n "$(BITTERN_PEERS)" ]; then \
		$(BIN)/python bench/peers.py "$$($(BIN)/bittern pull smollm2)" --json bench/results/peers.json; \
	else echo "make: BITTERN_PEERS names no Python with llama-cpp-python; no peers are measured" >&2; fi
	$(BIN)/python scripts/docs.py

clean:
	rm -rf $(VENV) $(OUT) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make: $(PYTHON) is older than 3.11; name a newer one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "make: $(PYTHON) cannot make a venv; on Debian: apt install python3-venv" >&2; exit 1; }

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/.tests: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable '.[test]'
	@touch $@ $(VENV)/.installed
