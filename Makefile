# Everything needs only python3 (3.11+) and make: the first target that runs builds .venv by itself.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PYTEST  = $(BIN)/python -m pytest -n auto --dist worksteal
READY  := $(VENV)/.ready
# Neighbours with an environment of their own, integrations/NAME/.venv, from requirements.in and .lock there. A new one is a
# word here, a target test-NAME, and a word in .ci/run.
NEIGHBOURS := airflow dbt clickhouse s3 spark sail openapi readers
TRINO  := integrations/readers/.trino/trino-server-476
ARGS   ?=
ROUNDS ?= 100
SCALE  ?= full
DIST   ?= dist
TOOLS  := $(HOME)/.cache/vitrina/tools
COMPOSE = docker compose --file infra/docker-compose.yml
export VITRINA_HOME ?= .vitrina
export PYTHONDONTWRITEBYTECODE =  # what is compiled is kept

.PHONY: help demo dist test test-long test-pg15 test-es9 test-opensearch test-steady slow coverage airflow-wheel test-airflow test-dbt test-clickhouse test-s3 test-sail test-spark test-spark-long measure-spark test-readers test-openapi test-openid lint openapi reference \
        $(NEIGHBOURS:%=ready-%) ready-openid \
        security-table audit live-verdicts oracle format up down logs migrate-db bench bench-guard bench-quick scaling bench-page bench-changes bench-console \
        screenshots assets faults races model mutations load helm versitygw lock clean

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): requirements-dev.lock pyproject.toml
	@echo "setting up $(VENV) …"
	@$(PYTHON) tools/environment.py $(VENV) requirements-dev.lock --editable .
	@touch $@

demo: $(READY)  ## the cinema's tables to its marts, on an embedded Postgres
	@$(BIN)/vitrina demo $(ARGS)

test: $(READY)  ## the quick tests, on a real Postgres (ARGS="-k name" to choose)
	@$(PYTEST) -m "not long and not slow and not opensearch" $(ARGS)

test-long: $(READY)  ## the other tests: those that take a second or more each
	@$(PYTEST) -m "long or (slow and not opensearch)" $(ARGS)

test-pg15: $(READY)  ## what versions of Postgres differ in and a sample of the rest, on Debian's Postgres 15
	@VITRINA_TEST_PG_BIN=$${VITRINA_TEST_PG_BIN:-/usr/lib/postgresql/15/bin} $(PYTEST) -m "(versions$(if $(VITRINA_TEST_ES_VERSION), or elasticsearch)) and not long and not browser and not opensearch" $(ARGS)

test-es9: $(READY)  ## the Elasticsearch tests, on Elasticsearch 9 (needs Java 21 or newer)
	@VITRINA_TEST_ES_VERSION=$${VITRINA_TEST_ES_VERSION:-9.2.0} $(PYTEST) -m "elasticsearch and not long and not browser and not opensearch" $(ARGS)

test-opensearch: $(READY)  ## the OpenSearch tests, on OpenSearch 3 (needs Java 21 or newer)
	@$(PYTEST) -m "opensearch and not long" $(ARGS)

test-steady: $(READY)  ## the tests ROUNDS times, with every core kept busy: whatever failed once, and its log
	@$(BIN)/python -m tools.steady --rounds $(if $(filter file,$(origin ROUNDS)),10,$(ROUNDS)) $(ARGS)

slow: $(READY)  ## tests/slow.json anew: which tests take longest
	@VITRINA_MEASURE=1 $(PYTEST) -m "not long and not opensearch" $(ARGS)

coverage: $(READY)  ## lines and branches that the unit and integration tests reach; page by page in .covered
	@rm -f .coverage .coverage.*
	@$(BIN)/coverage run -m pytest -n auto --dist worksteal -m "not long and not opensearch" tests/unit tests/integration $(ARGS); code=$$?; \
	$(BIN)/coverage combine -q && $(BIN)/coverage html -q && $(BIN)/coverage report; exit $$code

$(NEIGHBOURS:%=integrations/%/.venv/.ready): %/.venv/.ready: %/requirements.lock
	@echo "setting up $(@D) …"
	@$(PYTHON) tools/environment.py $(@D) $< --no-deps
	@touch $@

integrations/openid/node_modules/.ready: integrations/openid/package-lock.json
	@command -v npm >/dev/null || { echo "make: there is no npm: install Node.js 20 or newer with npm (on Debian: apt install npm)" >&2; exit 1; }
	@cd $(<D) && npm ci --loglevel=error --no-audit --no-fund >/dev/null
	@touch $@

integrations/spark/.jars/.ready: integrations/spark/pom.xml
	@echo "fetching Spark's jars …"
	@command -v mvn >/dev/null || { echo "make: there is no Maven: install it (on Debian: apt install maven)" >&2; exit 1; }
	@rm -rf $(@D) && mvn -q -B --strict-checksums -f $< org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=.jars -DexcludeTransitive
	@touch $@

$(TRINO)/.ready:
	@echo "fetching Trino …"
	@command -v mvn >/dev/null || { echo "make: there is no Maven: install it (on Debian: apt install maven)" >&2; exit 1; }
	@rm -rf $(dir $(@D)) && mvn -q -B --strict-checksums org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -Dartifact=io.trino:trino-server:476:tar.gz -DoutputDirectory=$(CURDIR)/$(dir $(@D))
	@cd $(dir $(@D)) && tar -xzf trino-server-476.tar.gz && rm trino-server-476.tar.gz && find $(notdir $(@D))/plugin -mindepth 1 -maxdepth 1 ! -name iceberg -exec rm -r {} +
	@touch $@

$(NEIGHBOURS:%=ready-%): ready-%: integrations/%/.venv/.ready
ready-spark: integrations/spark/.jars/.ready
ready-readers: $(TRINO)/.ready
ready-openid: integrations/openid/node_modules/.ready

airflow-wheel: $(READY)  ## the Airflow provider's wheel, into dist
	@cd integrations/airflow && ../../$(BIN)/python -m hatchling build -t wheel -d ../../dist

test-airflow: $(READY) ready-airflow airflow-wheel  ## the Airflow provider, on a real Airflow (fetched: 130 packages)
	@integrations/airflow/.venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --force-reinstall dist/airflow_provider_vitrina-*.whl
	@cd integrations/airflow && ../../$(BIN)/mypy
	@$(BIN)/python -m pytest -n 0 -p tests.conftest integrations/airflow/tests $(ARGS)

test-dbt: $(READY) ready-dbt  ## the recipe for dbt, with a real dbt (fetched: 60 packages)
	@$(BIN)/python -m pytest -n 0 tests/acceptance/test_recipes.py -k dbt $(ARGS)

test-clickhouse: $(READY) $(if $(CLICKHOUSE_URL),,ready-clickhouse)  ## marts in ClickHouse, on its engine (chDB, fetched: 950 MB) or at CLICKHOUSE_URL
	@$(BIN)/python -m pytest -n 2 --dist worksteal -p tests.conftest integrations/clickhouse/tests $(ARGS)

test-s3: $(READY) ready-s3  ## lakes in a bucket, on a server of S3 (moto, fetched: 300 MB)
	@$(BIN)/python -m pytest -n 2 --dist worksteal -p tests.conftest -p tests.s3 integrations/s3/tests $(ARGS)

test-sail: $(READY) ready-sail  ## sources by Spark Connect, on Sail (fetched: 65 MB)
	@$(BIN)/python -m pytest -n 2 --dist worksteal -p tests.conftest -p tests.sail integrations/sail/tests $(ARGS)

test-spark: $(READY) ready-spark  ## pipelines over Spark, on a cluster of this machine (fetched: 600 MB; needs Java 17 and Maven)
	@$(BIN)/python -m pytest -n 0 -p tests.conftest -p tests.spark -m "not long" integrations/spark/tests $(ARGS)

test-spark-long: $(READY) ready-spark  ## runners, executors and drivers that are killed: minutes
	@$(BIN)/python -m pytest -n 0 -p tests.conftest -p tests.spark -m long integrations/spark/tests/test_cluster.py $(ARGS)

measure-spark: $(READY) ready-spark  ## ROWS=10000000 rows through Spark: into a lake, a table, an index
	@VITRINA_SPARK_ROWS=$(if $(filter file,$(origin ROWS)),10000000,$(or $(ROWS),10000000)) $(BIN)/python -m pytest -n 0 -p tests.conftest -p tests.spark -s integrations/spark/tests/test_scale.py $(ARGS)

test-readers: $(READY) ready-readers ready-clickhouse  ## marts in a lake, read by DuckDB, polars, daft, Trino and ClickHouse (fetched: 2.2 GB; needs Maven)
	@$(BIN)/python -m pytest -n 2 --dist loadscope -p tests.conftest integrations/readers/tests $(ARGS)

test-openapi: $(READY) ready-openapi  ## a client that is made from docs/openapi.json, on the real API (fetched: 25 packages)
	@$(BIN)/python -m pytest -n 0 tests/contract/test_made_client.py $(ARGS)

test-openid: $(READY) ready-openid  ## sign-in by a real provider of OpenID Connect (fetched: 40 packages; needs node and npm)
	@VITRINA_REQUIRE=openid $(BIN)/python -m pytest -n 0 tests/acceptance/test_openid.py $(ARGS)

lint: $(READY)  ## ruff, mypy --strict, import-linter
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

openapi: $(READY)  ## write docs/openapi.json anew
	@$(BIN)/python -m tests.contract.refresh

reference: $(READY)  ## write docs/reference.md anew
	@$(BIN)/python -m tests.docs.refresh

security-table: $(READY)  ## write the table of docs/security.md anew
	@VITRINA_REFRESH=1 $(BIN)/python -m pytest -n 0 tests/security/test_layers.py -k page

audit: $(READY)  ## the dependencies against published advisories (needs the network)
	@tools/audit

live-verdicts: $(READY)  ## write tests/corpora/live_verdicts.txt anew
	@VITRINA_REFRESH=1 $(BIN)/python -m pytest -n 0 tests/integration/test_live_verdicts.py -k committed

oracle: $(READY)  ## generated queries of live marts against brute force (QUERIES=100000)
	@$(BIN)/python -m tests.liveoracle --queries $(or $(QUERIES),10000) $(ARGS)

format: $(READY)  ## let ruff put the code in shape
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

ifeq ($(STACK),compose)
up:
	@infra/env
	@$(COMPOSE) up --build --detach $(ARGS)

down:
	@$(COMPOSE) down $(patsubst --purge,--volumes,$(ARGS))

logs:
	@$(COMPOSE) logs $(ARGS)
else
up: $(READY)  ## start Postgres, the API and a runner in the background (STACK=compose: in containers)
	@$(BIN)/vitrina up $(ARGS)

down: $(READY)  ## stop them (ARGS=--purge clears the data too)
	@$(BIN)/vitrina down $(ARGS)

logs: $(READY)  ## what the background processes say
	@$(BIN)/vitrina logs $(ARGS)
endif

dist: $(READY)  ## the wheel, and what the image is built from, into dist: docker build - <dist/vitrina-image.tar.gz
	@$(BIN)/python -m hatchling build -t wheel -d $(DIST)
	@tar --create --gzip --exclude=__pycache__ --file $(DIST)/vitrina-image.tar.gz Dockerfile $$(sed -n 's/^!//p' .dockerignore)

migrate-db: $(READY)  ## bring the meta-store up to date
	@$(BIN)/vitrina migrate

bench: $(READY)  ## measure, beside the floor and peers (SCALE=small|full; ARGS="--only=films --no-peers")
	@$(BIN)/python -m bench --scale $(SCALE) $(ARGS)

bench-guard: $(READY)  ## is a row of the small benchmark slower than at BASE=revision? (ARGS="--only=films --times=15")
	@$(BIN)/python -m bench.guard $(BASE) $(ARGS)

scaling: $(READY)  ## docs/scaling.md, from what was measured
	@$(BIN)/python -m bench.scaling

bench-quick: $(READY)  ## in two minutes: does a run take more processor time than at BASE=revision?
	@$(BIN)/python -m bench.quick $(BASE) $(ARGS)

bench-page: $(READY)  ## docs/benchmarks.md and its charts, from bench/results.json
	@$(BIN)/python -m bench.page

bench-changes: $(READY)  ## measure change capture
	@$(BIN)/python -m bench.changes $(ARGS)

bench-console: $(READY)  ## the console's home page, with 1,000 pipelines and 100,000 runs
	@$(BIN)/python -m bench.console

screenshots: $(READY)  ## the console's pages, from the demo, into docs/images (needs Chromium)
	@$(BIN)/python -m tools.console.screenshots

assets:  ## the console's editor, htmx and uPlot anew (needs node and npm)
	@cd tools/console && npm ci --no-audit --no-fund && node build.mjs

faults: $(READY)  ## kills, stops, cuts and crashes over all sinks and modes (ROUNDS=500; SEED and FIRST repeat some; ENGINE=opensearch)
	@$(BIN)/python -m tests.faults --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED)) $(if $(FIRST),--first $(FIRST)) $(if $(ENGINE),--engine $(ENGINE))

races: $(READY)  ## the long form of the other fault and race tests (ROUNDS=20)
	@VITRINA_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest -m faults $(ARGS)

model: $(READY)  ## the claim protocol exhaustively (SIZE="3 2": runners, pipelines), the lifecycle at length, 1,020 late commits and 1,000 claims
	@$(BIN)/python -m tests.models.search $(SIZE)
	@VITRINA_ROUNDS=1000 VITRINA_TRIALS=1020 $(BIN)/python -m pytest -n 2 tests/models/test_lifecycle.py tests/integration/test_late_commits.py \
	    tests/integration/test_claims.py -k "any_order or however_late or eight_runners" $(ARGS)

mutations: $(READY)  ## take out each guard in turn: some test must notice
	@$(BIN)/python -m tools.mutations $(ARGS)

load: $(READY)  ## 10,000 pipelines, 8 runners, 200 runs a minute
	@$(BIN)/python -m bench.load $(ARGS)

versitygw:  ## build another server of S3 for make test-s3, where there is none (needs Go)
	@test -x $(TOOLS)/versitygw || { mkdir -p $(TOOLS) && GOBIN=$(TOOLS) go install github.com/versity/versitygw/cmd/versitygw@v1.8.0; }

helm:  ## build Helm for the chart's tests, where there is none (needs Go)
	@test -x $(TOOLS)/helm || { mkdir -p $(TOOLS) && GOBIN=$(TOOLS) go install helm.sh/helm/v3/cmd/helm@v3.22.0; }

lock: $(READY)  ## pin the dependencies anew
	@echo 'hatchling>=1.26' | $(BIN)/uv pip compile -q - --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make lock" -o infra/build.lock
	@$(BIN)/uv pip compile -q pyproject.toml --extra oidc --extra clickhouse --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make lock" -o requirements.lock
	@$(BIN)/uv pip compile -q pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make lock" -o requirements-dev.lock
	@for neighbour in $(NEIGHBOURS); do $(BIN)/uv pip compile -q integrations/$$neighbour/requirements.in --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-strip-extras --custom-compile-command "make lock" -o integrations/$$neighbour/requirements.lock; done

clean:  ## remove what set-up and tests made
	@rm -rf $(VENV) $(NEIGHBOURS:%=integrations/%/.venv) integrations/openid/node_modules integrations/spark/.jars integrations/readers/.trino .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
