# shellcheck shell=sh source-path=SCRIPTDIR
# container-build.sh - a container image out of a Dockerfile, by buildah, without root. Not a recipe of
# a name: the store runs it, with what it needs in the environment:
#
#   MOAT_DISK_TOOL      the program moat-disk
#   MOAT_BUILD_STORAGE  a directory for what is kept for the next build; nobody else uses it meanwhile
#   MOAT_BUILD_KEEP_MB  how much that may be
#   WORK/build          context.tar, Dockerfile, registries.conf, args (lines NAME=VALUE), target (a
#                       stage, or nothing); auth.json, if there is one; anew, if no layer is to be
#                       used again
#
# WORK/build/image becomes the result: a directory as skopeo writes it ("dir:").
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/lib.sh"
. "$HERE/lib-debian.sh"

recipe_begin "$@"
mkdir -p "$MOAT_BUILD_STORAGE"
# The stage comes as a text: the root of a user namespace may not be able to read this directory.
stage=$(cat "$HERE/container-build/stage.sh")
STEP=
if [ "$(id -u)" -eq 0 ]; then
	guard "$MOAT_DISK_TOOL" mapped "$WORK/build" "$MOAT_BUILD_STORAGE" \
		/bin/sh -euc "$stage" stage /mnt/work /mnt/storage "$MOAT_BUILD_KEEP_MB"
else
	namespace_check
	namespace /bin/sh -euc "mount -t proc proc /proc
$stage" stage "$WORK/build" "$MOAT_BUILD_STORAGE" "$MOAT_BUILD_KEEP_MB"
fi
