#!/bin/sh
# debian12 - Debian 12 with systemd, the guest agent, python3 and a user with sudo.
# shellcheck source-path=SCRIPTDIR
HERE=$(dirname "$0")
. "$HERE/lib.sh"
. "$HERE/lib-linux.sh"
. "$HERE/lib-disk.sh"
. "$HERE/lib-debian.sh"

recipe_begin "$@"
debian_build debian12 bookworm 'Debian 12 (bookworm)'
