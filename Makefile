# Every target makes its own environment in .venv first; repeated, that costs nothing.

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format docs bench eval chaos fuzz test-local-model test-functional clean

VENV := .venv
BIN := $(VENV)/bin
LOCAL := .venv-local-model
# Named after the place, because a copied environment still calls the one it was copied from.
READY := $(VENV)/.ready-$(shell pwd -P | cksum | cut -d' ' -f1)

export PIP_DISABLE_PIP_VERSION_CHECK = 1

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## Make the environment in .venv

demo: setup ## Capture a sample, restart, ask, and check the answers
	@$(BIN)/gralkord demo

test: setup ## Run all checks and tests
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/pytest

lint: setup ## Run the checks only
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

format: setup ## Format the code
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

docs: setup ## Write the reference pages that follow from the code
	@$(BIN)/python docs/generate.py

bench: setup ## Measure the figures of the README
	@$(BIN)/python bench/run.py

eval: setup ## Measure what recall finds; FILES=... are of the LoCoMo format
	@$(BIN)/gralkord eval fixtures
	@$(BIN)/gralkord eval generated
	@$(BIN)/gralkord eval ablations $(FILES)
	@test -z "$(FILES)" || $(BIN)/gralkord eval retrieval $(FILES) --format locomo

chaos: setup ## Kill, freeze and cut off its processes under load; check that nothing is lost
	@$(BIN)/python -m chaos $(ARGS)

fuzz: setup ## Try 20,000 random strings as names, facts, questions and ids
	@GRALKORD_FUZZ=20000 $(BIN)/pytest -q tests/graph/test_fuzz.py $(ARGS)

test-local-model: setup $(LOCAL)/ready ## Build llama.cpp; run the whole path on a small model
	@LOCAL_MODEL_VENV="$(CURDIR)/$(LOCAL)" $(BIN)/pytest -n0 -v tests/local_model $(ARGS)

test-functional: setup ## Ask the model of GRALKORD_MODELS__LLM what it must be good for; it costs
	@FUNCTIONAL_TESTS=1 $(BIN)/pytest -n0 -v -rs tests/functional $(ARGS)

clean: ## Remove the environment and everything that was built
	rm -rf $(VENV) $(LOCAL) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(LOCAL)/ready: scripts/local-model | setup
	@PYTHON=$(BIN)/python sh scripts/local-model $(LOCAL)
	@touch $@

$(READY): pyproject.toml scripts/setup
	@sh scripts/setup $(VENV)
	@touch $(READY)
