# Moorage: `make up` runs it (the first time after a demonstration), `make stories` asks why for every example, `make test` tests it. Both set up what they need under this folder.
PYTHON ?= python3
BIN := .venv/bin
GATES := AllAlpha=true

# Tests of real processes wait now and then: one worker more than there are cores keeps all of them busy.
PARALLEL = -n $(shell expr $$(nproc) + 1) --dist loadfile --no-loadscope-reorder
FUZZ_MINUTES := 10
FUZZ_SECONDS ?= 60

.PHONY: up stories setup test fuzz coverage lint format bench lock dist clean

up: .venv/.runtime
	@test -d .moorage || $(BIN)/moorage demo || true
	@$(BIN)/moorage up --feature-gates $(GATES)

stories: .venv/.runtime
	@for story in examples/*/; do echo "-- $$story"; $(BIN)/moorage why -f $$story --feature-gates $(GATES) || test $$? -eq 1 || exit 2; done

setup: .venv/.dev

test: .venv/.dev
	@echo "== running the test suite"
	@$(BIN)/pytest $(PARALLEL)

# Rounds for FUZZ_MINUTES: requests at random to a live server for FUZZ_SECONDS, then all random tests. SEED repeats a round.
fuzz: .venv/.dev
	@end=$$(( $$(date +%s) + 60 * $(FUZZ_MINUTES) )); \
	while seed=$${SEED:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}; do \
		echo "== a round with a new seed: make fuzz SEED=$$seed"; \
		FUZZ_SECONDS=$(FUZZ_SECONDS) SEED=$$seed PYTHONPATH=. $(BIN)/python bench/fuzz.py || exit 1; \
		MOORAGE_TEST_SEED=$$seed $(BIN)/pytest $(PARALLEL) -m "hypothesis or seeded" --hypothesis-profile fuzz --hypothesis-seed $$seed || exit 1; \
		test -z "$$SEED" -a $$(date +%s) -lt $$end || break; \
	done

coverage: .venv/.dev
	@echo "== running the test suite with coverage (twice the work)"
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest $(PARALLEL)
	@$(BIN)/coverage combine -q
	@$(BIN)/coverage report

lint: .venv/.dev
	@echo "== ruff"
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "== mypy --strict"
	@$(BIN)/mypy
	@echo "== import-linter"
	@$(BIN)/lint-imports

format: .venv/.dev
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

bench: .venv/.dev
	@for file in $(filter-out $(addprefix bench/,serving.py cel_engines.py upstream.py mutations.py differential.py placed.py fuzz.py rooms.py scale.py kwok.py thresholds.py),$(wildcard bench/*.py)); do echo "== $$file"; $(BIN)/python $$file || exit 1; done

lock: .venv/.dev
	@echo "== resolving dependencies"
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --group dev -c requirements.lock pyproject.toml -o requirements-dev.lock

# RELEASE_URL is where the files of the release will be found; IMAGE the image in its manifests, best by digest; SOURCE_DATE_EPOCH the time in them, by default the last commit's.
dist: .venv/.dev
	@$(BIN)/python scripts/dist.py dist

clean:
	@rm -rf .venv

.venv/.python:
	@echo "== creating .venv"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Moorage needs Python 3.11 or newer, found " + sys.version.split()[0] + ": run make PYTHON=/path/to/python3.11")'
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/.runtime: .venv/.python requirements.lock pyproject.toml
	@echo "== installing what Moorage needs to run"
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

.venv/.dev: .venv/.runtime requirements-dev.lock
	@echo "== installing what development needs"
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@
