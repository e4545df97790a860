# shellcheck shell=sh
# lib.sh - what every image recipe shares: messages, host tools, apt without root, the manifest.
# Sourced by the recipes, never run. A recipe is called as: sh RECIPE OUTDIR WORKDIR
#
# stdout belongs to progress lines. Everything else, tools included, goes to stderr, and the last
# line there names the cause of a failure. So recipe_begin keeps the real stdout on fd 3 and points
# fd 1 at stderr.

set -eu
umask 022
LC_ALL=C
export LC_ALL
PATH=$PATH:/usr/sbin:/sbin
export PATH

# File times inside images: the same packages then give the same bytes.
# shellcheck disable=SC2034 # for the files that are sourced after this one
EPOCH=1700000000

die() {
	STEP=
	printf '%s\n' "$*" >&2
	exit 1
}

# progress DONE TOTAL TEXT...
progress() {
	progress_done=$1
	progress_total=$2
	shift 2
	STEP=$*
	printf 'progress %d %d %s\n' "$progress_done" "$progress_total" "$*" >&3
}

# A child that outlives a killed recipe would write into a directory that is being deleted.
guard() {
	setpriv --pdeathsig KILL -- "$@"
}

free_mb() {
	df -Pm "$1" | awk 'NR == 2 { print $4 }'
}

# Some tool failed under set -e and has printed its own complaint: say in words what that was about.
explain_exit() {
	rc=$?
	[ "$rc" -ne 0 ] && [ -n "${STEP:-}" ] || return 0
	for dir in "$OUT" "$WORK" "$CACHE"; do
		if [ "$(free_mb "$dir" || echo 0)" -lt 16 ]; then
			echo "no space left on the disk that holds $dir" >&2
			return 0
		fi
	done
	echo "building the image failed at: $STEP (the build log has the details)" >&2
}

# recipe_begin "$@"
recipe_begin() {
	exec 3>&1 1>&2
	[ $# -eq 2 ] || die "usage: sh RECIPE OUTDIR WORKDIR"
	OUT=$(cd "$1" && pwd) || die "cannot enter the output directory $1"
	WORK=$(cd "$2" && pwd) || die "cannot enter the work directory $2"
	[ -n "${MOAT_CACHE_DIR:-}" ] || die "MOAT_CACHE_DIR is not set"
	mkdir -p "$MOAT_CACHE_DIR/debs" || die "cannot create the cache directory $MOAT_CACHE_DIR"
	CACHE=$(cd "$MOAT_CACHE_DIR" && pwd)
	TMPDIR=$WORK
	export TMPDIR
	STEP='starting'
	trap explain_exit EXIT
	[ "$(uname -m)" = x86_64 ] || die "images are built for x86_64 and only on x86_64 machines"
	need_tools "$(basename "$0" .sh)"
}

# Says what to install, all at once, from the same table that "moat doctor" reads.
need_tools() {
	missing=
	while read -r tool package recipes; do
		case " $recipes " in
		*" $1 "*)
			command -v "$tool" >/dev/null && continue
			[ "$tool" != newuidmap ] || [ "$(id -u)" -ne 0 ] || continue # root needs no mapping
			case "$missing " in
			*" $package "*) ;;
			*) missing="$missing $package" ;;
			esac
			;;
		esac
	done <"$HERE/packages"
	[ -z "$missing" ] || die "tools are missing; install these Debian packages:$missing"
}

# --- apt, private to this build -------------------------------------------------------------------

# apt_setup [SOURCES]: the machine's own sources, keys and proxy settings apply; its state and caches
# are left alone. MOAT_APT_SOURCES names a sources.list to use instead, for machines that are not
# Debian; a recipe's SOURCES comes before both. ARCHITECTURE, if set, is whose packages are wanted.
# shellcheck disable=SC2120
apt_setup() {
	apt_sources=${1:-${MOAT_APT_SOURCES:-}}
	rm -rf "$WORK/apt"
	mkdir -p "$WORK/apt/state/lists/partial" "$WORK/apt/cache/archives/partial" "$WORK/apt/new"
	: >"$WORK/apt/status"
	cat >"$WORK/apt/conf" <<-CONF
		#clear APT::Update::Pre-Invoke;
		#clear APT::Update::Post-Invoke;
		#clear APT::Update::Post-Invoke-Success;
		#clear APT::Architectures;
		APT::Architecture "${ARCHITECTURE:-amd64}";
		APT::Architectures { "${ARCHITECTURE:-amd64}"; };
		APT::Sandbox::User "root";
		Dir::State "$WORK/apt/state";
		Dir::State::status "$WORK/apt/status";
		Dir::Cache "$WORK/apt/cache";
		Acquire::Languages "none";
		Acquire::Retries "3";
		Acquire::http::Timeout "30";
		Acquire::https::Timeout "30";
		Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
		Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
	CONF
	[ -z "$apt_sources" ] || cat >>"$WORK/apt/conf" <<-CONF
		Dir::Etc::sourcelist "$apt_sources";
		Dir::Etc::sourceparts "-";
	CONF
}

apt_tool() {
	apt_command=$1
	shift
	guard "$apt_command" -q -c "$WORK/apt/conf" "$@" </dev/null
}

# Mirrors answer 503 now and then, beyond what apt's own retries bridge.
retry() {
	for pause in 2 5 0; do
		"$@" && return 0
		[ "$pause" -eq 0 ] || sleep "$pause"
	done
	return 1
}

# "URI SUITE CODENAME LABEL" of each Debian repository whose index is here.
debian_sources() {
	# shellcheck disable=SC2016 # apt expands these
	apt_tool apt-get indextargets 'Created-By: Packages' 'Origin: Debian' 'Component: main' \
		--format '$(REPO_URI) $(RELEASE) $(CODENAME) $(LABEL) $(FILENAME)' |
		while read -r uri suite codename label file; do
			[ ! -e "$file" ] || echo "$uri $suite $codename $label"
		done
}

# A third party's broken source must not stop us: what counts is that Debian's index arrived.
apt_update_once() {
	apt_tool apt-get update || echo "apt-get update had problems"
	[ -n "$(debian_sources)" ]
}

apt_update() {
	retry apt_update_once ||
		die "cannot read Debian's package lists: no network, or this machine's apt has no Debian source"
}

# fetch PACKAGE...: prints the .deb files of their candidate versions; what is cached is not downloaded.
fetch() {
	apt_tool apt-get --print-uris download "$@" >"$WORK/apt/uris" ||
		die "the apt sources of this machine do not have all of: $*"
	missing=
	while read -r _ file _ hash; do
		deb_is_cached "$file" "$hash" || missing="$missing ${file%%_*}"
	done <"$WORK/apt/uris"
	# shellcheck disable=SC2086 # a list of names
	if [ -n "$missing" ]; then
		(cd "$WORK/apt/new" && retry apt_tool apt-get download $missing) ||
			die "cannot download Debian packages (no network, or the mirror fails):$missing"
		for file in "$WORK"/apt/new/*.deb; do
			cache_move "$file" "$CACHE/debs/${file##*/}"
		done
	fi
	while read -r _ file _ _; do
		printf '%s\n' "$CACHE/debs/$file" >&4
	done <"$WORK/apt/uris"
}

deb_is_cached() {
	[ -f "$CACHE/debs/$1" ] || return 1
	case $2 in
	SHA256:*) echo "${2#*:}  $CACHE/debs/$1" | sha256sum --status -c || return 1 ;;
	SHA512:*) echo "${2#*:}  $CACHE/debs/$1" | sha512sum --status -c || return 1 ;;
	*) return 1 ;;
	esac
	touch -c "$CACHE/debs/$1" # in use: cache_prune spares it
}

# cache_move FILE TO: it appears there whole or not at all. The copy is for a cache on another disk.
cache_move() {
	ln -f "$1" "$2" 2>/dev/null || {
		part=$(dirname "$2")/.part.$$
		cp "$1" "$part"
		mv "$part" "$2"
	}
	rm -f "$1"
}

# Superseded versions, and parts that a killed build left.
cache_prune() {
	find "$CACHE/debs" -type f -mtime +30 -delete
	find "$CACHE/debs" -name '.part.*' -mmin +60 -delete
}

# Releases differ in where they put /bin and /lib: with these links all of it lands below usr.
merged_usr() {
	for dir in bin sbin lib lib64; do
		mkdir -p "$1/usr/$dir"
		[ -e "$1/$dir" ] || ln -s "usr/$dir" "$1/$dir"
	done
}

# unpack DIR PACKAGE... [-- TAR-PATTERN...]
unpack() {
	unpack_dir=$1
	shift
	unpack_names=
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		unpack_names="$unpack_names $1"
		shift
	done
	[ $# -eq 0 ] || shift
	merged_usr "$unpack_dir"
	# shellcheck disable=SC2086 # a list of names
	fetch $unpack_names 4>"$WORK/apt/debs"
	while read -r deb; do
		guard dpkg-deb --fsys-tarfile "$deb" >"$WORK/apt/data.tar"
		# A pattern need not match in each of the packages: tar's complaint about that is noise.
		tar -x -f "$WORK/apt/data.tar" -C "$unpack_dir" --no-same-owner --keep-directory-symlink \
			--wildcards "$@" || [ $# -gt 0 ]
	done <"$WORK/apt/debs"
	rm -f "$WORK/apt/data.tar"
}

# --- the result -----------------------------------------------------------------------------------

json_string() {
	if [ -n "$1" ]; then printf '"%s"' "$1"; else printf null; fi
}

# manifest KEY=VALUE...: strings that need no escaping; an empty value becomes null.
manifest() {
	{
		printf '{\n  "format": 1,\n  "arch": "x86_64",\n  "os_type": "l26"'
		for pair in "$@"; do
			case $pair in
			min_ram_mb=*) printf ',\n  "min_ram_mb": %d' "${pair#*=}" ;;
			cloud_init=*) printf ',\n  "cloud_init": %s' "${pair#*=}" ;;
			*) printf ',\n  "%s": %s' "${pair%%=*}" "$(json_string "${pair#*=}")" ;;
			esac
		done
		printf '\n}\n'
	} >"$OUT/manifest.json"
}
