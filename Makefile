# Everything a user needs: `make demo` shows it, `make test` proves it. Both set up what they need.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed

.PHONY: setup demo test check truth real bench
setup: $(STAMP)
$(STAMP): pyproject.toml
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

demo: setup
	-$(VENV)/bin/tokenproof check cassettes golden/vllm-0.32.0 golden/sglang-0.5.23

check: setup
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy

test: check
	$(PY) -m pytest

truth: setup
	$(PY) -m tests.report_truth

real: setup
	$(PY) -m tests.report_real

bench: setup
	$(PY) -m tests.bench.report
