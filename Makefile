# Everything needs only python3 (3.11+) and make: the first target that runs builds .venv by itself.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
ARGS   ?=
ROUNDS ?= 100
SCALE  ?= full
export VITRINA_HOME ?= .vitrina

.PHONY: help demo test test-long test-pg15 test-es9 lint openapi live-verdicts format up down logs migrate-db bench bench-changes \
        bench-console screenshots assets faults model mutations load lock clean

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Vitrina needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) …"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(READY)  ## the cinema's tables to its marts, on an embedded Postgres
	@$(BIN)/vitrina demo $(ARGS)

test: $(READY)  ## all tests, on a real Postgres (ARGS="-k name" to choose)
	@$(BIN)/python -m pytest -n 3 -m "not long" $(ARGS)

test-long: $(READY)  ## the few tests that take minutes each
	@$(BIN)/python -m pytest -m long $(ARGS)

test-pg15: $(READY)  ## the same tests, on Debian's Postgres 15
	@VITRINA_TEST_PG_BIN=$${VITRINA_TEST_PG_BIN:-/usr/lib/postgresql/15/bin} $(BIN)/python -m pytest -n 3 -m "not long" $(ARGS)

test-es9: $(READY)  ## the Elasticsearch tests, on Elasticsearch 9 (needs Java 21 or newer)
	@VITRINA_TEST_ES_VERSION=$${VITRINA_TEST_ES_VERSION:-9.2.0} $(BIN)/python -m pytest -n 3 -m "elasticsearch and not long" $(ARGS)

lint: $(READY)  ## ruff, mypy --strict, import-linter
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

openapi: $(READY)  ## write docs/openapi.json anew
	@$(BIN)/python -m tests.contract.refresh

live-verdicts: $(READY)  ## write tests/corpora/live_verdicts.txt anew
	@VITRINA_REFRESH=1 $(BIN)/python -m pytest -n 0 tests/integration/test_live_verdicts.py -k committed

format: $(READY)  ## let ruff put the code in shape
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

up: $(READY)  ## start Postgres, the API and a runner in the background
	@$(BIN)/vitrina up $(ARGS)

down: $(READY)  ## stop them (ARGS=--purge clears the data too)
	@$(BIN)/vitrina down $(ARGS)

logs: $(READY)  ## what the background processes say
	@$(BIN)/vitrina logs $(ARGS)

migrate-db: $(READY)  ## bring the meta-store up to date
	@$(BIN)/vitrina migrate

bench: $(READY)  ## measure (SCALE=small|full)
	@$(BIN)/python -m bench --scale $(SCALE) $(ARGS)

bench-changes: $(READY)  ## measure change capture
	@$(BIN)/python -m bench.changes $(ARGS)

bench-console: $(READY)  ## the console's home page, with 1,000 pipelines and 100,000 runs
	@$(BIN)/python -m bench.console

screenshots: $(READY)  ## the console's pages, from the demo, into docs/images (needs Chromium)
	@$(BIN)/python -m tools.console.screenshots

assets:  ## the console's editor, htmx and uPlot anew (needs node and npm)
	@cd tools/console && npm ci --no-audit --no-fund && node build.mjs

faults: $(READY)  ## the long form of the fault and race loops (ROUNDS=500)
	@VITRINA_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest -m faults $(ARGS)

model: $(READY)  ## the claim protocol exhaustively, the lifecycle at length, 1,020 late commits and 1,000 claims
	@$(BIN)/python -m tests.models.search
	@VITRINA_ROUNDS=1000 VITRINA_TRIALS=1020 $(BIN)/python -m pytest -n 2 tests/models/test_lifecycle.py tests/integration/test_late_commits.py \
	    tests/integration/test_claims.py -k "any_order or however_late or eight_runners" $(ARGS)

mutations: $(READY)  ## take out each guard in turn: some test must notice
	@$(BIN)/python -m tools.mutations $(ARGS)

load: $(READY)  ## 10,000 pipelines, 8 runners, 200 runs a minute
	@$(BIN)/python -m bench.load $(ARGS)

lock: $(READY)  ## pin the dependencies anew
	@$(BIN)/uv pip compile -q pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make lock" -o requirements.lock
	@$(BIN)/uv pip compile -q pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make lock" -o requirements-dev.lock

clean:  ## remove what set-up and tests made
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
