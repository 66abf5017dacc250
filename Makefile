# Everything a user needs: `make demo` shows it, `make test` proves it. Both set up what they need.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed

.PHONY: setup demo test check truth real bench prompts witnesses emulator-parity soak drift-planted false-green mutants \
	cap cassette-round states kills storm bench-generate screenshot kills-extract bench-extract
setup: $(STAMP)
$(STAMP): pyproject.toml tests/constraints.txt
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --constraint tests/constraints.txt --editable '.[test,extract,ray]'
	touch $@

# Shows verdicts of every kind; `check` exits 1 where something is rejected, which is what a demo should show.
demo: setup
	$(VENV)/bin/tokenproof check cassettes golden/vllm-0.32.0 golden/sglang-0.5.23 --blind || test $$? -eq 1
	$(VENV)/bin/tokenproof show golden/vllm-0.32.0/d07_tool1_spaced.tools.json --rows
	$(PY) -m tests.report_demo

check: setup
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy

test: check
	$(PY) -m pytest

truth: setup
	$(PY) -m pytest -q tests/test_cases.py tests/test_cases_wire.py
	$(PY) -m tests.report_truth

real: setup
	$(PY) -m tests.report_real

bench: setup
	$(PY) -m tests.bench.report

prompts: setup
	$(PY) -m tests.report_prompts

witnesses: setup
	$(PY) -m tests.report_witnesses

emulator-parity: setup
	$(PY) -m tests.report_emulator

# Bulk generation over loopback sockets; each ends in one JSON line.
kills: POINTS ?= 200
kills: setup
	$(PY) -m pytest -q tests/runners/test_ledger.py -k 'torn or disk or grow or cannot_be_written or whole'
	$(PY) -m tests.report_kills --points $(POINTS)

cap: setup
	$(PY) -m tests.report_cap

storm: setup
	$(PY) -m tests.report_storm

bench-generate: setup
	$(PY) -m tests.report_bench_generate

TRIALS ?= 100000
soak: setup
	$(PY) -m tests.report_soak --trials $(TRIALS)

cassette-round: setup
	$(PY) -m tests.report_cassettes

drift-planted: setup
	$(PY) -m tests.report_drift

false-green: setup
	$(PY) -m tests.report_false_green

mutants: setup
	$(PY) -m tests.report_mutants

states: setup
	$(PY) -m tests.report_states

# The picture in the README; needs a Chromium.
screenshot: setup
	$(PY) -m tests.make_screenshot

kills-extract: POINTS ?= 100
kills-extract: setup
	$(PY) -m tests.report_kills_extract --points $(POINTS)

bench-extract: setup
	$(PY) -m tests.report_bench_extract
