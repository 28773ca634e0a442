# Everything a person does here is one of these; Meson and Ninja do the work.
BUILD ?= build

.PHONY: all deps build run test torture lint coverage bench fuzz kernels install clean
all: build

deps:
	@tools/deps.sh build

build: deps
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) >/dev/null
	@ninja -C $(BUILD) --quiet

# The main job: this machine, profiled into a server of its own.
run: build
	@$(BUILD)/vesta up --data $(BUILD)/up-data --log-level warn

test:
	@tools/deps.sh test
	@python3 tools/run_tests.py

# What takes too long for every day: SEEDS lives of a store on a simulated disk, ROUNDS kills.
torture: build
	@$(BUILD)/tests/sim_store $(or $(SEEDS),5000)
	@$(BUILD)/tests/test_faults full
	@$(BUILD)/tests/test_no_memory full
	@$(BUILD)/tests/test_kill $(or $(ROUNDS),2000)
	@echo "torture: nothing went wrong"

lint:
	@tools/deps.sh lint
	@tools/lint.sh

coverage:
	@tools/deps.sh lint
	@python3 tools/coverage.py

bench: bench-formats bench-store bench-server bench-agent bench-web bench-preload bench-node

bench-%: build
	@tools/deps.sh bench
	@python3 bench/bench_$*.py

# Long fuzzing: SECONDS per target, e.g. make fuzz SECONDS=600 TARGET=pprof
fuzz:
	@tools/deps.sh test
	@python3 tools/fuzz.py --seconds $(or $(SECONDS),60) $(TARGET)

# The agent on other kernels, in virtual machines: make kernels VERSIONS="6.1 6.12"
kernels: build
	@python3 tools/kernels.py $(VERSIONS)

install: build
	@ninja -C $(BUILD) install

clean:
	rm -rf build build-asan build-tsan build-fuzz build-coverage build-lint
