# `make demo` and `make test` each work on a fresh machine that has Python 3.11+, make and git.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: env test demo docs clean

env: $(STAMP)

# torch comes first and pinned: an open range would pull gigabytes of CUDA packages on a bare machine.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

test: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist worksteal

# The whole story on synthetic speech: convert, search, adapt, measure, report. Run it again after
# an interruption and it goes on where it was. One epoch of one phase adapts enough to see it.
DEMO := --data embedded --pretrained embedded-tiny-t2 --random 5 \
	--phases qat --recipe qat=examples/demo/qat.toml

# One thread: two that wait for each other take longer than one where others use the cores, too.
demo: env
	OMP_NUM_THREADS=1 $(BIN)/falcon-snn run $(DEMO) --out demo-out

docs: env
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/mkdocs build --quiet
	@echo "Documentation: site/index.html"

clean:
	rm -rf $(VENV) demo-out site
