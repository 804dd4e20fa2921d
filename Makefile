# SPDX-License-Identifier: GPL-2.0-or-later

# The rt-app files that `make demo` runs: the examples in Debian's rt-app package. The shell looks for them, because make would do so before
# the recipe has installed them.
examples = /usr/share/doc/rt-app/examples
DEMO_WORKLOADS = $(examples)/*.json $(examples)/tutorial/*.json
DEMO_SCHEDULERS = linux24,o1,cfs

fairground = $${CARGO_TARGET_DIR:-target}/release/fairground
PREFIX = /usr/local

.PHONY: help demo build share install uninstall deb rpm arch wheel packages test lint unit-test testbench stranger combinations same mutants originals fuzz deny documents worlds overhead bench clean

help:
	@echo 'make demo       build the command, compare schedulers on the examples of rt-app, and rank them for a recorded build'
	@echo 'make build      build the command: target/release/fairground'
	@echo 'make install    the command, its manual pages, completions and workloads: PREFIX=/usr/local, DESTDIR= for packages; make uninstall'
	@echo 'make deb        a package for Debian; make rpm for Fedora, make arch for Arch Linux'
	@echo 'make wheel      the Python package with the command in it, for glibc 2.28 and newer'
	@echo 'make test       everything that must pass: lint, unit-test, testbench'
	@echo 'make lint       formatting, and clippy without a warning'
	@echo 'make unit-test  tests that need no kernel of their own'
	@echo 'make testbench  tests on a real kernel, in a virtual machine'
	@echo 'make stranger   the documents, followed on a machine that has nothing, where everything is built; prints the CPU time of that'
	@echo 'make combinations 500 drawn combinations of options and keys and 200 malformed inputs: right, refused, noted, or silent'
	@echo 'make same       how often a scheduler is the same as itself with other seeds, and how often a known change is found'
	@echo 'make mutants    small changes to the schedulers, each of which a test must notice; SCHEDULERS=a,b for some of them'
	@echo 'make originals  for each scheduler, in how many logs it decides as its original, and the first differences of the others'
	@echo 'make fuzz       random inputs for every reader of files; TIME=600 seconds in all'
	@echo 'make deny       licences and sources of all libraries, and which are there in two versions: needs cargo-deny'
	@echo 'make documents  reproduce the documents and write the results into experiments/README.md'
	@echo 'make worlds     the same workloads on a real kernel and in the simulator, side by side'
	@echo 'make overhead   what each scheduler costs on a real kernel'
	@echo 'make bench      how fast the simulator is'
	@echo 'make clean      remove everything that was built or downloaded'

demo: build
	scripts/install demo
	$(fairground) compare --schedulers $(DEMO_SCHEDULERS) $(DEMO_WORKLOADS)
	$(fairground) show workloads/build.recording
	$(fairground) advise --schedulers kernel,$(DEMO_SCHEDULERS) workloads/build.recording

# With --locked, as everywhere that a stranger builds: the versions are those that were tested.
build:
	scripts/install build
	@[ -e $(fairground) ] || echo 'building the command and its libraries: minutes, this once'
	cargo build --locked --release --package fairground

# Files that belong under /usr/share, in the form in which packages take it, too.
share: build
	$(fairground) generate target/share

install: share
	install -D -m 755 $(fairground) $(DESTDIR)$(PREFIX)/bin/fairground
	cd target/share && find . -type f -exec install -D -m 644 {} $(DESTDIR)$(PREFIX)/share/{} \;
	install -d $(DESTDIR)$(PREFIX)/share/fairground/workloads
	install -m 644 workloads/*.* $(DESTDIR)$(PREFIX)/share/fairground/workloads

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/fairground $(DESTDIR)$(PREFIX)/share/man/man1/fairground.1 $(DESTDIR)$(PREFIX)/share/man/man1/fairground-*.1
	rm -f $(DESTDIR)$(PREFIX)/share/bash-completion/completions/fairground $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_fairground
	rm -f $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/fairground.fish
	rm -rf $(DESTDIR)$(PREFIX)/share/fairground

# Packages, in target/packages.
deb rpm arch: share
	packaging/build $@

wheel:
	packaging/wheel

# That they can be installed, used and removed.
packages:
	packaging/test

# --tests, because comments contain no examples and Cargo would otherwise run rustdoc on every crate to look for them. The seed makes random
# inputs the same in every run.
UNIT_TEST = PROPTEST_RNG_SEED=1 cargo test --workspace --tests

# The build needs the processors and fetching the testbench's pieces needs the network, so the two run in parallel. So do the tests, because
# emulated machines and installations often wait; their output comes last. Clippy compiles everything that is tested, so nothing is built twice.
test: export RUSTC_WORKSPACE_WRAPPER = $(CURDIR)/scripts/rustc-with-lints
test:
	scripts/install build
	$(MAKE) --jobs=2 pieces everything
	@logs=$$(mktemp -d) && trap 'kill $$machines $$stranger 2> /dev/null; rm -rf "$$logs"' EXIT && trap 'exit 130' INT TERM; \
	testbench/run > "$$logs/machines" 2>&1 & machines=$$!; \
	testbench/stranger > "$$logs/stranger" 2>&1 & stranger=$$!; \
	$(UNIT_TEST); status=$$?; \
	scripts/instructions || status=$$?; \
	packaging/test || status=$$?; \
	python/test || status=$$?; \
	testbench/combinations --combinations 40 --malformed 20 --command $${CARGO_TARGET_DIR:-target}/debug/fairground || status=$$?; \
	wait $$stranger || status=$$?; \
	cat "$$logs/stranger"; \
	tail --pid=$$machines -n +1 -f "$$logs/machines"; \
	wait $$machines && exit $$status

.PHONY: pieces everything
pieces:
	scripts/install test
everything:
	cargo fmt --all --check
	cargo test --quiet --workspace --all-targets --no-run

lint:
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets -- -D warnings

unit-test:
	$(UNIT_TEST)

testbench:
	scripts/install test
	testbench/run

# The tests do the same with the command that they built.
stranger:
	testbench/stranger --cold

# The tests do the same with fewer.
combinations: build
	testbench/combinations --command $(fairground)

# Not part of the tests: it takes minutes of CPU time. Prints the table of docs/metrics.md.
same: build
	testbench/same --command $(fairground)

# Not part of the tests: it runs the tests of the schedulers hundreds of times.
mutants:
	FAIRGROUND_MUTANTS=$(SCHEDULERS) cargo test --package fairground-simulator --test schedulers -- --ignored --nocapture every_mutant

# The tests compare the same logs; this prints the figures.
originals:
	cargo test --package fairground-simulator --test schedulers -- --ignored --nocapture originals_table

# Not part of the tests, which try the same small changes of the same inputs each time: this goes on for as long as desired.
fuzz: TIME = 600
fuzz:
	scripts/install build
	scripts/fuzz $(TIME)

# Not part of the tests: it takes minutes of CPU time. A test compares a part of the results.
documents:
	scripts/install build
	scripts/documents

# Not part of the tests: to install it takes longer than they do.
deny:
	cargo deny --locked check licenses bans sources

# Not part of the tests: it emulates minutes of CPU time, and the two CPUs in parallel need a machine that is otherwise idle.
worlds:
	scripts/install test
	testbench/worlds

# Not part of the tests: it takes minutes of CPU time, and measures rather than checks.
overhead:
	scripts/install test
	scripts/install bench
	testbench/overhead

bench:
	scripts/install bench
	cargo bench --package fairground-lab --bench simulator

clean:
	cargo clean
