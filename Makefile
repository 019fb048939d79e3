# Each target sets up what it needs. `make` alone lists them.
PYTHON ?= python3
PORT ?= 8000
HOST ?= 127.0.0.1
VENV := .venv
BIN := $(VENV)/bin
ifdef DATA_DIR
export DATA_DIR
endif

.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help run test quick check coverage chaos bench image format

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## /  make \1\t/' | expand -t 18

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit("Airlock needs Python 3.11 or later, this is %d.%d" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.runtime: requirements.txt $(VENV)/.made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.runtime
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

run: $(VENV)/.runtime ## set everything up and run it (PORT=8123 DATA_DIR=/some/folder)
	@exec $(BIN)/python manage.py up --host $(HOST) --port $(PORT)

# Which arrows of the state machines the whole of the tests takes: see testing/arrows.py.
test: export ARROWS_DIR = $(if $(ARGS),,$(CURDIR)/.cache/arrows)
test: $(VENV)/.dev ## run the tests; with a Docker Engine at hand the Docker tier too
	$(if $(ARGS),,@rm -rf .cache/arrows)
	$(BIN)/python -m pytest $(or $(ARGS),-m "not alone and not paced and not signals and not night")
	$(if $(ARGS),,$(BIN)/python -m pytest -n 4 -m "paced and not alone and not signals and not night")
	$(if $(ARGS),,$(BIN)/python -m pytest -n 2 -m "signals and not night")
	$(if $(ARGS),,$(BIN)/python -m pytest -n 0 -m "alone and not night")
	$(if $(ARGS),,$(BIN)/python -m testing.arrows)

quick: $(VENV)/.dev ## run unit and database tests only, in under 90 s on two cores
	$(BIN)/python -m pytest -n 2 -m "not slow"

check: $(VENV)/.dev ## lint, format, types, import contract, house checks, migrations, deploy check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m testing.house_checks
	$(BIN)/python -W error manage.py makemigrations --check --dry-run
	env $$(cat config/production.env | grep -v '^\#' | xargs) $(BIN)/python manage.py check --deploy --fail-level WARNING

coverage: $(VENV)/.dev ## measure the coverage of the quick tests and compare it with the floor of each app
	@mkdir -p .cache/coverage
	$(BIN)/python -m pytest -n 2 --cov --cov-report= $(or $(ARGS),-m "not slow")
	$(BIN)/python -m coverage json --quiet
	$(BIN)/python -m testing.coverage_floors

chaos: $(VENV)/.dev ## inject faults of all kinds during 100 recordings and a channel on air (SEED=1 SECONDS=180 BOOKINGS=100)
	$(BIN)/python -m testing.chaos $(if $(SEED),--seed $(SEED)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(BOOKINGS),--bookings $(BOOKINGS))

bench: $(VENV)/.dev ## measure, and write bench/out/latest.json
	$(BIN)/python -m bench $(ARGS)

image: ## build the image of media workers (BASE=some/image with python3 and ffmpeg)
	DOCKER_BUILDKIT=1 docker build $(if $(BASE),--build-arg BASE=$(BASE)) --tag $(or $(WORKER_IMAGE),airlock-worker:latest) --file docker/worker.Dockerfile .

format: $(VENV)/.dev ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
