#!/bin/sh
# blank - an empty disk, for VMs that a CD installs a system into. Each VM says how large it is.
# shellcheck source-path=SCRIPTDIR
HERE=$(dirname "$0")
. "$HERE/lib.sh"

recipe_begin "$@"
truncate -s 1M "$OUT/disk.raw"
manifest description='An empty disk' disk=disk.raw disk_format=raw firmware=any
