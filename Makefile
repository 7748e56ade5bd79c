# Every target sets up .venv by itself: the first time, and again when a lock file has changed.
# Needs only make and a Python of 3.11 or newer: the system's own (/usr/bin/python3) where it will do, else the
# newest on the path. Another one: make test PYTHON=/path/to/python

PYTHON ?=
VENV   := .venv
BIN    := $(VENV)/bin
BASE   := $(VENV)/base.stamp
DEV    := $(VENV)/dev.stamp
PIP    := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet install
AGENTS := .agents
CLAUDE := 2.1.325
CODEX  := 0.166.0
PINNED := claude-$(CLAUDE)-codex-$(CODEX)
APPS   := $(patsubst %/plan.yaml,%,$(wildcard src/fanfold/apps/*/plan.yaml))
CORES  := -n 4 -p tests.cores
# Tests that wait for other programs, most of the time.
WAITING := -n 6 -p tests.cores
PATHS  := src tests tools $(wildcard bench)

# Tests are compiled once, not in every process, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow check format format-check lint types bench peers score sweep simulate fuzz browser build lock agents postgres hosts mlflow clean ray litellm

help: ## this list
	@sed -n -E 's/^([a-z-]+):[^#]*## (.*)/\1 \2/p' Makefile | while read -r name does; do printf '  make %-9s %s\n' "$$name" "$$does"; done

demo: $(BASE) ## a risk report over 163 contracts, without a key or a network
	@$(BIN)/fanfold demo

test: $(DEV) ## all tests but the slow and the long ones
	@$(BIN)/python -m pytest $(CORES)

test-slow: $(DEV) ## the slow ones: programs that are killed and ordered about, the wheel, the demos, what the pages show, fleets, the real claude and codex
	@$(BIN)/python -m pytest $(WAITING) -m "slow and not sweep" $$(grep -rl --include='test_*.py' mark.slow tests)

check: format-check lint types test test-slow ## what CI runs: format, lint, types, tests

format: $(DEV) ## put the code into its format
	@$(BIN)/ruff format $(PATHS)
	@$(BIN)/ruff check --fix $(PATHS)

format-check: $(DEV)
	@$(BIN)/ruff format --check $(PATHS)

lint: $(DEV) ## ruff
	@$(BIN)/ruff check $(PATHS)

types: $(DEV) ## mypy, strict
	@$(BIN)/python -m mypy
	@$(BIN)/python -m mypy --explicit-package-bases tests/faces/*_runs.py
	@for app in $(APPS); do $(BIN)/python -m mypy --no-namespace-packages $$app/*.py || exit 1; done

bench: $(DEV) ## the numbers, each against a raw baseline in the same run
	@$(BIN)/python bench/run.py

peers: $(DEV) ## the same six tasks for fanfold and for others, as they come from the package index; hours, 3 GB
	@$(BIN)/python bench/peers/run.py --write

score: $(DEV) ## every application against its ground truth; rewrites the tables of the scores
	@$(BIN)/python tools/score.py

sweep: $(DEV) ## the long tests: the applications on all their data, every crash point, a million items, all of Hypothesis' examples
	@$(BIN)/python -m pytest -m "sweep or hypothesis" --hypothesis-profile sweep

simulate: $(DEV) ## 100,000 simulated worlds with crashes; SEED=N: that one again, SCHEDULES=N: so many
	@$(BIN)/python -m fanfold.testing.simulation --sites $(if $(SEED),--seed $(SEED)) $(if $(SCHEDULES),--schedules $(SCHEDULES))

fuzz: $(DEV) ## hostile files, replies, stores and requests by chance; PART=plan, SEED=N, MINUTES=N; PART=plan:1:17: that case
	@$(BIN)/python -m tests.fuzz $(PART) $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES))

agents: $(AGENTS)/$(PINNED).stamp ## the real claude and codex that tests/faces drives; 800 MB, needs npm

$(AGENTS)/$(PINNED).stamp:
	@npm install --silent --no-audit --no-fund --fetch-retries 1 --fetch-timeout 60000 --prefix $(AGENTS) @anthropic-ai/claude-code@$(CLAUDE) @openai/codex@$(CODEX)
	@rm -f $(AGENTS)/*.stamp
	@touch $@

postgres: ## the PostgreSQL that the tests of its store start; Debian's package, needs root
	@command -v postgres >/dev/null || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null

hosts: $(DEV) postgres ## tests over three network namespaces as hosts, and a real sshd; Linux, needs root
	@command -v ip >/dev/null && test -x /usr/sbin/sshd || \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends iproute2 openssh-server >/dev/null
	@$(BIN)/python -m pytest -m "slow or sweep" -rs tests/flow/test_hosts.py tests/flow/test_ssh.py tests/flow/test_ssh_agents.py tests/flow/test_hosts_fleet.py

browser: ## the browser that tests of pages drive; without one they are skipped. Needs apt-get
	@command -v chromium >/dev/null || apt-get install -y -q chromium

mlflow: $(DEV) ## a real backend for traces, which tests/faces/test_mlflow.py starts; 850 MB
	@test -x .mlflow/bin/mlflow || ($(BIN)/python -m venv .mlflow && .mlflow/bin/pip install --quiet --disable-pip-version-check 'mlflow>=3.6,<4')

ray: $(DEV) ## a real Ray, in an environment of its own, for tests/flow/test_ray.py; 400 MB
	@test -x .ray/bin/python || ($(BIN)/python -m venv .ray && .ray/bin/pip install --quiet --disable-pip-version-check -r requirements.lock && .ray/bin/pip install --quiet --disable-pip-version-check 'ray[client]>=2.40,<3')

litellm: $(DEV) ## a real LiteLLM, in an environment of its own, for tests/flow/test_litellm.py; 350 MB
	@test -x .litellm/bin/python || ($(BIN)/python -m venv .litellm && .litellm/bin/pip install --quiet --disable-pip-version-check -r requirements.lock && .litellm/bin/pip install --quiet --disable-pip-version-check 'litellm>=1.80,<2')

build: $(DEV) ## the wheel and the source archive, in dist/
	@$(BIN)/python -m build --no-isolation --outdir dist

lock: $(DEV) ## rebuild both lock files from pyproject.toml
	@$(PIP) 'uv>=0.5,<1'
	@PYTHON=$(BIN)/python tools/lock

clean: ## remove .venv, caches and builds; keeps .fanfold, the store of your runs
	@rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

$(BASE): requirements.lock pyproject.toml tools/venv
	@PYTHON='$(PYTHON)' tools/venv $(VENV) requirements.lock
	@touch $(BASE)

$(DEV): requirements-dev.lock requirements.lock pyproject.toml tools/venv
	@PYTHON='$(PYTHON)' tools/venv $(VENV) requirements-dev.lock
	@touch $(BASE) $(DEV)
