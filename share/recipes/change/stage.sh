#!/bin/sh
# stage.sh WORK CACHE ROOT_NUMBER ROOT_START ROOT_SIZE TREE_MB - the part of a change that needs to be
# root: runs in namespaces of its own, with at most so much memory for the files. The files of the base are in a tmpfs, so that whatever becomes of
# this process, no file that belongs to another user id is left behind.
#
# The steps are in WORK/steps, in this order; each may be absent:
#   copy-N.tar, copy-N.to     files, and where they go; the archive has them under the name "copy"
#   packages                  names of Debian packages
#   run-N, run-N.name         scripts, and how the user calls them
# shellcheck source-path=SCRIPTDIR/..
HERE=$(dirname "$0")/..
. "$HERE/lib.sh"
. "$HERE/lib-disk.sh"
. "$HERE/lib-debian.sh"
. "$HERE/change/root.sh"

WORK=$1
CACHE=$2
ROOT_NUMBER=$3
ROOT_START=$4
ROOT_SIZE=$5
TREE_MB=$6
STEPS=$WORK/steps
ROOT=$WORK/fs/root
FREE_MB=512 # what a new file system has left, at least

# inside COMMAND...: among the files of the image, and nothing else of the host's files. The image's
# own links lead nowhere else. stdin, stdout and stderr must be pipes: of any other file, root inside
# could open what is behind /proc/self/fd once more, to write, and change its mode.
inside() {
	guard unshare --mount --pid --ipc --fork --kill-child=KILL -- \
		env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
		LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
		${http_proxy:+"http_proxy=$http_proxy"} ${https_proxy:+"https_proxy=$https_proxy"} \
		${no_proxy:+"no_proxy=$no_proxy"} \
		"$MOAT_DISK_TOOL" enter "$ROOT" "$@"
}

# script NAME ARGUMENT...: change/NAME.sh, inside
script() {
	script_text=$(cat "$HERE/change/$1.sh")
	shift
	inside /bin/sh -euc "$script_text" sh "$@"
}

# logged FILE COMMAND...: its output goes into the build log, the end of that into FILE, too. Returns
# what the command does.
logged() {
	logged_file=$1
	shift
	rm -f "$WORK/code"
	{
		"$@" 2>&1 && code=0 || code=$?
		echo "$code" >"$WORK/code"
	} | tee -a /proc/self/fd/2 | tail -c 65536 >"$logged_file"
	return "$(cat "$WORK/code")"
}

copy_all() {
	for tar in "$STEPS"/copy-*.tar; do
		[ -e "$tar" ] || continue
		to=$(cat "${tar%.tar}.to")
		STEP="copying to $to"
		# shellcheck disable=SC2002 # a pipe, see inside
		cat "$tar" | script copy "$to" "$(cat "${tar%.tar}.name")" ||
			die "copying to $to failed; the build log says why"
	done
}

packages_install() {
	[ -s "$STEPS/packages" ] || return 0
	echo 'progress 1 5 installing packages' >&3
	# shellcheck disable=SC2046 # a list of names
	: | logged "$WORK/apt.log" script packages "$(grep -v '^#' "$WORK/proxies" || true)" $(cat "$STEPS/packages") || {
		last=$(grep -a -E '^(E:|dpkg: error)' "$WORK/apt.log" | tail -n 1)
		die "installing packages failed: ${last:-$(tail -n 1 "$WORK/apt.log")}"
	}
}

run_all() {
	for script in "$STEPS"/run-*; do
		case $script in
		*.name) continue ;;
		esac
		[ -e "$script" ] || continue
		name=$(cat "$script.name")
		echo "progress 2 5 running $name" >&3
		# shellcheck disable=SC2002 # a pipe, see inside
		cat "$script" | logged "$WORK/run.log" script run "$name" && code=0 || code=$?
		last=$(grep -a . "$WORK/run.log" | tail -n 1)
		[ "$code" -eq 0 ] || die "$name failed with exit status $code${last:+: $last}"
	done
}

mkdir -p "$WORK/fs"
mount -t tmpfs -o "mode=755,size=${TREE_MB}m" moat "$WORK/fs"
mkdir "$ROOT"
cd "$WORK"
# It confines itself, but for a pid namespace.
guard unshare --pid --fork --kill-child=KILL -- \
	"$MOAT_DISK_TOOL" unpack disk.raw "$ROOT_START" "$ROOT" 3>&- >devices ||
	die "unpacking the root file system failed; the build log says why"
[ -d "$ROOT/etc" ] || die "the largest file system of the base has no /etc: it is no root file system"
partitions >table
debian_proxies >proxies 2>/dev/null || : >proxies

# shellcheck disable=SC2002 # a pipe, see inside
cat /etc/resolv.conf | script prepare || die "the base cannot run programs here; the build log says why"
copy_all
packages_install
run_all
STEP='cleaning up'
: | script finish

echo 'progress 3 5 making the file system' >&3
# Inodes and the journal need room, too.
need=$(($(du -sm "$ROOT" | cut -f 1) * 11 / 10 + FREE_MB + ROOT_SIZE / 1048576 / 50 + 128))
disk_mb=$((($(stat -c %s disk.raw) + 1048575) >> 20))
want=$((need + (ROOT_START >> 20) + 1))
if [ $((need << 20)) -le "$ROOT_SIZE" ]; then
	want=$disk_mb
fi
[ "$want" -ge "${MOAT_DISK_MB:-0}" ] || want=$MOAT_DISK_MB
[ "$want" -le "$disk_mb" ] || disk_grow "$want"
root_make "$ROOT"
root_devices devices "$ROOT"
