# shellcheck shell=sh source-path=SCRIPTDIR
# change.sh - an image out of another: files are copied, packages installed, scripts run among the
# files of its disk, without booting it and without root. Not a recipe of a name: the store runs it,
# with what it needs in the environment:
#
#   MOAT_HELPER      the program moat-helper, which confines others
#   MOAT_DISK_TOOL   the program moat-disk
#   MOAT_DISK_MB     the least size of the new disk
#   WORK/disk.raw    the disk of the base
#   WORK/steps       what to do, see change/stage.sh
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/lib.sh"
. "$HERE/lib-disk.sh"
. "$HERE/lib-debian.sh"
. "$HERE/change/root.sh"

recipe_begin "$@"
namespace_check

progress 0 5 'checking the file system'
cd "$WORK"
root_find
# What a running system left in its journal belongs to its files.
confined image e2fsck -f -y "$DISK?offset=$ROOT_START" >e2fsck.log 2>&1 || [ $? -le 2 ] ||
	die "the root file system of the base is damaged"
need=$(($(root_used_mb) + $(du -sm steps | cut -f 1) + 512))
available=$(awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo)
[ "$available" -ge "$need" ] ||
	die "the build needs $need MB of free memory, $available MB are available"

# stage.sh reports its own progress, on fd 3.
namespace sh "$HERE/change/stage.sh" "$WORK" "$CACHE" "$ROOT_NUMBER" "$ROOT_START" "$ROOT_SIZE" \
	"$((available - 256))" || { # the rest is for the VMs that run
	# shellcheck disable=SC2034 # for explain_exit: the stage has said what failed
	STEP=
	exit 1
}

progress 4 5 'compressing the disk'
disk_pack "$WORK/disk.raw"
progress 5 5 'done'
