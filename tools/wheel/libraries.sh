# shellcheck shell=sh
# libraries.sh - the libraries of a wheel, static and with no more in them than moat uses, from Debian's
# sources. Sourced by build.sh; share/recipes/lib.sh has apt without root.

LIBRARIES_RELEASE=trixie
# What each is built from; the order in which one needs the other.
LIBRARIES='zlib xz-utils libzstd jansson libyaml xxhash sqlite3 openssl libssh curl libarchive e2fsprogs'

# source_fetch NAME: a source's files. Those that are signatures of others are made empty: nobody reads
# them, and not every mirror has them.
source_fetch() {
	apt_tool apt-get -q=2 source --print-uris --only-source "$1" >"$WORK/uris" || return 1
	sed "s/^'\(.*\)' \([^ ]*\) [0-9]* \(.*\)$/\1 \2 \3/" "$WORK/uris" | while read -r uri file sum; do
		case $file in
		*.asc) : >"$WORK/fetched/$file" ;;
		*) apt_tool /usr/lib/apt/apt-helper -q=2 download-file "$uri" "$WORK/fetched/$file" "$sum" || exit 1 ;;
		esac
	done
}

# sources_try SUITES-PATTERN NAME...: fetches what the matching suites have; prints the names of the rest.
sources_try() {
	grep -E "$1" "$WORK/all-sources.list" >"$WORK/sources.list"
	shift
	apt_setup "$WORK/sources.list"
	retry apt_tool apt-get -q=2 update >&2
	for name; do
		source_fetch "$name" >"$WORK/said" 2>&1 || echo "$name"
	done
}

# sources_fetch DIR: each library's source, patched by Debian, in DIR/NAME; DIR/versions names them.
sources_fetch() {
	apt_setup
	apt_update
	debian_sources_derive "$LIBRARIES_RELEASE" | sed 's/^deb /deb-src /' >"$WORK/all-sources.list"
	rm -rf "$WORK/fetched"
	mkdir "$WORK/fetched"
	# shellcheck disable=SC2086 # lists of names
	{
		late=$(sources_try . $LIBRARIES)
		if [ -n "$late" ]; then
			echo "the mirror of security updates lacks these; taken as they were released:" $late
			late=$(sources_try " $LIBRARIES_RELEASE main" $late)
		fi
	}
	[ -z "$late" ] || die "cannot download the sources of: $late: $(cat "$WORK/said")"
	for name in $LIBRARIES; do
		# Without a signature's check: apt has checked the sums of all files already.
		dpkg-source --no-check -x "$WORK/fetched/${name}"_*.dsc "$1/$name" >/dev/null
		echo "$name $(dpkg-parsechangelog -l "$1/$name/debian/changelog" -S Version)" >>"$1/versions"
	done
}

# cmake_build SOURCE OPTION...
cmake_build() {
	source=$1
	shift
	"$TOOLS/cmake" -S "$source" -B "$BUILD/$name" -G Ninja -DCMAKE_MAKE_PROGRAM="$TOOLS/ninja" \
		-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="$ARCH" \
		-DCMAKE_C_COMPILER="$BIN/cc" -DCMAKE_AR="$BIN/ar" -DCMAKE_RANLIB="$BIN/ranlib" \
		-DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="$FLAGS" -DCMAKE_POLICY_VERSION_MINIMUM=3.5 \
		-DCMAKE_INSTALL_PREFIX="$PREFIX" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_FIND_ROOT_PATH="$PREFIX" \
		-DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY \
		-DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY \
		-DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF "$@"
	"$TOOLS/ninja" -C "$BUILD/$name" install
}

# Functions named after the sources, for LIBRARIES; the "-" of a name is a "_".
build_zlib() {
	(cd "$1" && CC=$BIN/cc AR=$BIN/ar RANLIB=$BIN/ranlib CFLAGS=$FLAGS ./configure --static --prefix="$PREFIX" &&
		make install)
}
build_xz_utils() {
	cmake_build "$1" -DENABLE_NLS=OFF -DXZ_NLS=OFF -DXZ_TOOL_XZ=OFF -DXZ_TOOL_XZDEC=OFF -DXZ_TOOL_LZMADEC=OFF \
		-DXZ_TOOL_LZMAINFO=OFF -DXZ_TOOL_SCRIPTS=OFF -DXZ_DOC=OFF
}
build_libzstd() {
	cmake_build "$1/build/cmake" -DZSTD_BUILD_PROGRAMS=OFF -DZSTD_BUILD_SHARED=OFF -DZSTD_BUILD_TESTS=OFF \
		-DZSTD_MULTITHREAD_SUPPORT=OFF -DZSTD_LEGACY_SUPPORT=OFF
}
build_jansson() {
	cmake_build "$1" -DJANSSON_BUILD_DOCS=OFF -DJANSSON_EXAMPLES=OFF -DJANSSON_WITHOUT_TESTS=ON
}
build_libyaml() {
	cmake_build "$1"
	mkdir -p "$PREFIX/lib/pkgconfig" # its own build makes this file with autotools only
	printf 'Name: yaml\nDescription: YAML\nVersion: 0.2.5\nCflags: -I%s\nLibs: -L%s -lyaml\n' \
		"$PREFIX/include" "$PREFIX/lib" >"$PREFIX/lib/pkgconfig/yaml-0.1.pc"
}
build_xxhash() {
	cmake_build "$1/cmake_unofficial" -DXXHASH_BUILD_XXHSUM=OFF
}
# Its one file is made by a script in Tcl.
# shellcheck disable=SC2086 # FLAGS are several words
build_sqlite3() {
	mkdir -p "$BUILD/sqlite3"
	(cd "$BUILD/sqlite3" && "$1/configure" --disable-shared >/dev/null && make sqlite3.c sqlite3.h >/dev/null &&
		"$BIN/cc" $FLAGS -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_THREADSAFE=1 -c sqlite3.c &&
		"$BIN/ar" rcs "$PREFIX/lib/libsqlite3.a" sqlite3.o && cp sqlite3.h "$PREFIX/include/")
	printf 'Name: SQLite\nDescription: SQL\nVersion: %s\nCflags: -I%s\nLibs: -L%s -lsqlite3 -lm -lpthread\n' \
		"$(cat "$1/VERSION")" "$PREFIX/include" "$PREFIX/lib" >"$PREFIX/lib/pkgconfig/sqlite3.pc"
}
build_openssl() {
	mkdir -p "$BUILD/openssl"
	(cd "$BUILD/openssl" && CC=$BIN/cc AR=$BIN/ar RANLIB=$BIN/ranlib "$1/Configure" "linux-$ARCH" \
		no-shared no-module no-dso no-engine no-tests no-apps no-docs no-legacy no-comp no-quic no-dtls no-srp \
		no-psk no-ocsp no-cms no-ts no-ct no-idea no-seed no-camellia no-aria no-sm2 no-sm3 no-sm4 no-bf no-cast \
		no-rc2 no-rc4 no-mdc2 no-whirlpool no-rmd160 no-ssl3 no-tls1 no-tls1_1 no-ml-dsa no-slh-dsa \
		--prefix="$PREFIX" --libdir=lib --openssldir=/etc/ssl &&
		make -s -j"$(nproc)" && make -s install_sw)
}
build_libssh() {
	cmake_build "$1" -DWITH_SERVER=ON -DWITH_SFTP=OFF -DWITH_GSSAPI=OFF -DWITH_ZLIB=OFF -DWITH_EXAMPLES=OFF \
		-DWITH_PCAP=OFF -DWITH_SYMBOL_VERSIONING=OFF -DWITH_NACL=OFF -DUNIT_TESTING=OFF -DOPENSSL_ROOT_DIR="$PREFIX"
	grep -q Requires.private "$PREFIX/lib/pkgconfig/libssh.pc" ||
		echo 'Requires.private: libcrypto' >>"$PREFIX/lib/pkgconfig/libssh.pc"
}
# The place of the CA certificates is found out when moat runs.
build_curl() {
	cmake_build "$1" -DBUILD_CURL_EXE=OFF -DBUILD_LIBCURL_DOCS=OFF -DBUILD_MISC_DOCS=OFF -DENABLE_CURL_MANUAL=OFF \
		-DHTTP_ONLY=ON -DCURL_USE_OPENSSL=ON -DOPENSSL_ROOT_DIR="$PREFIX" -DCURL_USE_LIBPSL=OFF -DCURL_USE_LIBSSH2=OFF \
		-DUSE_LIBIDN2=OFF -DUSE_NGHTTP2=OFF -DCURL_BROTLI=OFF -DCURL_ZSTD=OFF -DCURL_ZLIB=OFF -DCURL_DISABLE_NTLM=ON \
		-DCURL_CA_BUNDLE=none -DCURL_CA_PATH=none
}
build_libarchive() {
	cmake_build "$1" -DENABLE_TAR=OFF -DENABLE_CPIO=OFF -DENABLE_CAT=OFF -DENABLE_UNZIP=OFF -DENABLE_TEST=OFF \
		-DENABLE_OPENSSL=OFF -DENABLE_LIBXML2=OFF -DENABLE_EXPAT=OFF -DENABLE_BZip2=OFF -DENABLE_LZ4=OFF \
		-DENABLE_LZO=OFF -DENABLE_LIBB2=OFF -DENABLE_NETTLE=OFF -DENABLE_MBEDTLS=OFF -DENABLE_ACL=OFF \
		-DENABLE_XATTR=OFF -DENABLE_ICONV=OFF -DENABLE_PCREPOSIX=OFF -DENABLE_PCRE2POSIX=OFF -DENABLE_CNG=OFF \
		-DENABLE_WERROR=OFF
}

build_e2fsprogs() {
	mkdir -p "$BUILD/e2fsprogs"
	(cd "$BUILD/e2fsprogs" && CC=$BIN/cc AR=$BIN/ar RANLIB=$BIN/ranlib CFLAGS=$FLAGS "$1/configure" \
		--host="$ARCH-linux-gnu" --build="$(uname -m)-linux-gnu" --prefix="$PREFIX" --libdir="$PREFIX/lib" \
		--disable-nls --disable-uuidd --disable-fuse2fs --disable-tdb --enable-libuuid --enable-libblkid &&
		make -s util/subst &&
		for library in et ext2fs; do
			make -s -C "lib/$library" && make -s -C "lib/$library" install
		done)
}

libraries_build() {
	for name in $LIBRARIES; do
		[ ! -e "$PREFIX/built-$name" ] || continue
		echo "building $name"
		"build_$(echo "$name" | tr - _)" "$SOURCES/$name" >"$BUILD/$name.log" 2>&1 || {
			tail -n 40 "$BUILD/$name.log"
			die "$name cannot be built; $BUILD/$name.log has all of it"
		}
		touch "$PREFIX/built-$name"
	done
}
