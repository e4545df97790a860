# shellcheck shell=sh
# lib-busybox.sh - the static busybox of the tiny systems. Sourced after lib.sh.
#
# Debian's binary has glibc in it, whose start is half of what an emulated guest executes for a small
# command. So Debian's source is built again, with musl. Where that cannot be done (no compiler, a
# mirror without sources) the binary serves as well, only slower.

# busybox_fetch DIR: DIR/bin/busybox.
busybox_fetch() {
	if ! busybox_build "$1"; then
		echo "taking Debian's own binary of busybox instead"
		unpack "$1" busybox-static
	fi
}

# Without effect on DIR if it fails; it has then said why.
busybox_build() {
	for tool in gcc make musl-gcc dpkg-source; do
		command -v "$tool" >/dev/null || {
			echo "no $tool to build busybox with"
			return 1
		}
	done
	version=$(busybox_version)
	built=$CACHE/busybox/$version-$(busybox_key)
	if [ ! -e "$built" ]; then
		busybox_source "$version" || return 1
		guard env SOURCE_DATE_EPOCH="$EPOCH" sh "$HERE/tiny/build-busybox" "$WORK/busybox/source" || return 1
		cache_move "$WORK/busybox/source/busybox" "$built"
		rm -rf "$WORK/busybox"
	fi
	touch -c "$built" # in use: cache_prune spares it
	merged_usr "$1"
	cp "$built" "$1/bin/busybox"
}

# Of the source: the binary may have been built from it a second time.
busybox_version() {
	apt_tool apt-cache show --no-all-versions busybox-static |
		awk '$1 == "Version:" { version = $2 } $1 == "Source:" && $3 { source = $3 }
			END { gsub(/[()]/, "", source); print source ? source : version }'
}

# What the result depends on besides.
busybox_key() {
	{
		cat "$HERE/tiny/build-busybox" "$(musl-gcc -print-file-name=libc.a)"
		gcc --version
	} | sha256sum | cut -c 1-16
}

# apt-get, for sources in place of packages.
busybox_apt() {
	apt_tool apt-get -o "Dir::Etc::sourcelist=$WORK/busybox/list" -o Dir::Etc::sourceparts=- \
		-o APT::Get::List-Cleanup=false "$@"
}

# busybox_source VERSION: from where the packages come from, into WORK/busybox/source.
busybox_source() {
	mkdir -p "$WORK/busybox"
	debian_sources | while read -r uri suite _; do
		echo "deb-src $(debian_keyring)$uri $suite main"
	done | sort -u >"$WORK/busybox/list"
	retry busybox_apt update &&
		(cd "$WORK/busybox" && retry busybox_apt --download-only source "busybox=$1") &&
		guard dpkg-source --no-check -x "$WORK"/busybox/busybox_*.dsc "$WORK/busybox/source"
}
