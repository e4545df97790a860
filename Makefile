# The front door. All building is done by meson; see HACKING.md.
BUILD := build
VENV := .venv
PREFIX ?= /usr/local
ARCH ?= $(shell uname -m)
BENCH ?= exec,files,memory,inspect
SECONDS_EACH ?= 60
RELEASES ?= bookworm trixie
MOAT := $(CURDIR)/$(BUILD)/src/cli/moat

.PHONY: all deps demo check test newcomer bench fuzz install uninstall deb sdist wheel clean

all: deps
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) | grep -E 'WARNING|ERROR' || test -f $(BUILD)/build.ninja
	@ninja -C $(BUILD)

deps:
	@tools/install-deps build

# Real Inspect evaluations in real VMs, without a model account: all examples, or EXAMPLES="hello ctf".
demo: all $(VENV)/installed
	@tools/install-deps run image
	@MOAT_BIN=$(MOAT) $(VENV)/bin/python tools/demo.py $(EXAMPLES)

$(VENV)/installed: python/pyproject.toml python/requirements-dev.txt
	@tools/install-deps run
	@tools/make-venv $(VENV)

# What needs no VM and no root, in a minute or two.
check:
	@tools/install-deps build run test
	@tests/run --check

# Everything; prints "N passed, N failed" at the end.
test:
	@tools/install-deps build run image test deb
	@tests/run

bench: all $(VENV)/installed
	@tools/install-deps run image
	@MOAT_BIN=$(MOAT) $(VENV)/bin/python bench/run.py $(BENCH)

# A new user on a fresh system, of RELEASES: takes a quarter of an hour each, and root.
newcomer:
	@tools/install-deps image
	@tests/newcomer.py $(RELEASES)

fuzz:
	@tools/install-deps build test
	@tests/fuzz/run $(SECONDS_EACH)

install: all
	@meson setup --reconfigure --prefix $(PREFIX) $(BUILD) >/dev/null
	@ninja -C $(BUILD) install

# What `make install` put there; it is written down in the build directory.
uninstall:
	@ninja -C $(BUILD) uninstall

# Packages for others, into dist/.
deb:
	@tools/install-deps build deb
	@tools/make-deb build-deb
	@mkdir -p dist && mv build-deb/*.deb dist/ && ls dist/*.deb

sdist: $(VENV)/installed
	@cd python && $(CURDIR)/$(VENV)/bin/python -c 'import hatchling.build as b; b.build_sdist("../dist")' && ls ../dist/*.tar.gz

# For other machines, and so with libraries of its own: the first time takes long.
wheel:
	@tools/install-deps wheel
	@tools/wheel/build.sh $(ARCH)

clean:
	@rm -rf $(BUILD) build-* $(VENV) dist
