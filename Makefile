# The front door: make | make run | make test | make test-long | make bench. Everything is CMake's work.

PRESET ?= release
BUILD  := build/$(PRESET)
TEXT   ?= data/kjv.txt
NAME   := $(basename $(notdir $(TEXT)))
CORES  := $(shell nproc)
RANKS  ?= $(shell [ $(CORES) -lt 4 ] && echo $(CORES) || echo 4)

# mpirun refuses root without these; containers often forbid the single-copy transport.
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
export OMPI_MCA_btl_vader_single_copy_mechanism := none
# MPI keeps memory until the end; of the preset asan only.
export ASAN_OPTIONS ?= detect_leaks=0

.PHONY: all run test test-long bench packages configure tests format clean

all: configure
	cmake --build $(BUILD) --target llmtrain llmtrain-checkpoint
	ln -sf $(BUILD)/bin/llmtrain $(BUILD)/bin/llmtrain-checkpoint .

# Installs what is missing, builds, and trains inputs/quickstart.ini on the King James Bible, or
# on TEXT=/path/to/any.txt. Again: resumes, or says that it is finished.
run: packages
	$(MAKE) all
	[ -n "$(filter-out data/kjv.txt,$(TEXT))" ] || utils/make-corpus.sh $(TEXT)
	mpirun -np $(RANKS) ./llmtrain --input inputs/quickstart.ini \
	  --data.train=$(TEXT) --run.directory=runs/quickstart-$(NAME)

# The quick tests; `test-long` runs the rest.
test: packages
	$(MAKE) tests
	cd $(BUILD) && ctest -L quick --output-on-failure

test-long: packages
	$(MAKE) tests
	cd $(BUILD) && ctest -L long --output-on-failure

# Steps of the public shapes beside PyTorch, where it is installed; then every op, one thread.
bench: packages
	$(MAKE) tests
	python3 utils/bench/bench.py --build $(BUILD) --json $(BUILD)/bench.json $(BENCH)
	OMP_NUM_THREADS=1 $(BUILD)/bin/llmtrain-bench-ops

packages:
	utils/install-packages.sh

configure:
	@[ -f $(BUILD)/build.ninja ] || cmake --preset $(PRESET)

tests: configure
	cmake --build $(BUILD)

format:
	git ls-files '*.hpp' '*.cpp' | xargs clang-format -i

clean:
	rm -rf build llmtrain llmtrain-checkpoint
