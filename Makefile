# The virtual environment is ours: uv makes it where uv is, plain venv and pip otherwise.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
STAMP := $(VENV)/.installed

# Hundreds of tests start worker processes: each should find what the first one compiled.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-slow test-oldest check bench bench-all schema proto openapi clean

$(STAMP): pyproject.toml
	@echo "installing into $(VENV) ..."
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --allow-existing --python $(PYTHON) $(VENV) && uv pip install --quiet --python $(BIN)/python -e '.[all]' --group dev; \
	else \
	  $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install --quiet --upgrade pip && $(BIN)/python -m pip install --quiet -e '.[all]' --group dev; \
	fi
	@touch $@

demo: $(STAMP)
	@$(BIN)/python examples/demo.py

test: $(STAMP)
ifdef ARGS
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" $(ARGS)
else
	@$(BIN)/python tests/run.py
endif

test-slow: $(STAMP)
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m slow $(ARGS)

# The same tests on Debian's PostgreSQL 15, where apt can bring it.
test-oldest: $(STAMP)
	@MAINSPRING_TEST_BIN=$$($(BIN)/python tests/servers.py postgres) $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" $(ARGS)

check: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

bench: $(STAMP)
	@$(BIN)/python -m benchmarks run --quick $(if $(JSON),--json $(JSON)) $(ARGS)

bench-all: $(STAMP)
	@$(BIN)/python -m benchmarks run $(if $(JSON),--json $(JSON)) $(ARGS)

# Write src/mainspring/db/schema/schema.sql anew after a migration; a test compares it.
schema: $(STAMP)
	@$(BIN)/python -m mainspring.db.schema.dump > src/mainspring/db/schema/schema.sql.new && mv src/mainspring/db/schema/schema.sql.new src/mainspring/db/schema/schema.sql

# Generate Python from src/mainspring/v1/*.proto; a test compares it.
proto: $(STAMP)
	@$(BIN)/python -m grpc_tools.protoc -Isrc --python_out=src --pyi_out=src --grpc_python_out=src src/mainspring/v1/*.proto

# Write the OpenAPI document anew from the table of routes; a test compares it.
openapi: $(STAMP)
	@$(BIN)/python -m mainspring.server.http.openapi > src/mainspring/server/http/openapi.json.new && mv src/mainspring/server/http/openapi.json.new src/mainspring/server/http/openapi.json

clean:
	rm -rf $(VENV) .mainspring .bench dist
