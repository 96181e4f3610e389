# Plain pip and venv. `make demo` or `make test` alone does all the set-up on a fresh clone; `make help` lists the rest.
#
# PYTHON       the Python to build .venv from (3.11 or newer). Left alone, python3 and then python3.13, python3.12,
#              python3.11 are tried.
# TORCH_INDEX  where pip takes torch and the libraries of its build from; the rest comes from the usual index. Left alone,
#              it is pip's usual index, whose torch on Linux is the CUDA build (several GB; runs on a CPU too) and elsewhere
#              the CPU one. For the small CPU build on Linux, or another CUDA version, give the URL of the wheel index
#              that PyTorch's own install page shows for it:
#                  make setup TORCH_INDEX=<URL of the wheel index>
# Another choice than the last one rebuilds .venv; no choice keeps what is there.

PYTHON ?= python3
TORCH_INDEX ?=
VENV := .venv
STAMP := $(VENV)/.ready
OUT ?= runs/demo

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format clean FORCE

help:
	@echo "make setup    the virtual environment .venv with everything pinned (PYTHON=..., TORCH_INDEX=<url>: see Makefile)"
	@echo "make demo     MaskGIT against DiT in a few minutes on a CPU; the report is $(OUT)/report.html"
	@echo "make test     lint, format, types and all tests"
	@echo "make lint     lint, format and types alone"
	@echo "make format   rewrites the code in the project's format"
	@echo "make clean    removes .venv and caches (runs/ stays)"

setup: $(STAMP)

# A torch index or a Python named by hand is compared with what .venv was built with, however new the stamp is.
$(STAMP): pyproject.toml constraints.txt scripts/setup.sh $(if $(TORCH_INDEX)$(filter-out python3,$(PYTHON)),FORCE)
	@PYTHON="$(PYTHON)" TORCH_INDEX="$(TORCH_INDEX)" sh scripts/setup.sh "$(VENV)"

demo: $(STAMP)
	@$(VENV)/bin/recombine demo --out "$(OUT)"

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

# Files of tests are shared out between processes; a process takes up to 3 GiB.
test: lint
	$(VENV)/bin/pytest -n auto --maxprocesses 4 --dist loadfile

format: $(STAMP)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

FORCE:
