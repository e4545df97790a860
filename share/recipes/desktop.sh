#!/bin/sh
# desktop - Debian 12 with a small desktop that is there when the VM is: nobody logs in, no screen
# goes dark, no program asks anything when it is first used.
# shellcheck source-path=SCRIPTDIR
HERE=$(dirname "$0")
. "$HERE/lib.sh"
. "$HERE/lib-linux.sh"
. "$HERE/lib-disk.sh"
. "$HERE/lib-debian.sh"

# For stage.sh: packages and files besides those of debian12, and units to start.
DEBIAN_MORE_PACKAGES=xserver-xorg-core,xserver-xorg-input-libinput,xkb-data,x11-xkb-utils
DEBIAN_MORE_PACKAGES=$DEBIAN_MORE_PACKAGES,x11-xserver-utils,dbus-x11,openbox,tint2,pcmanfm
DEBIAN_MORE_PACKAGES=$DEBIAN_MORE_PACKAGES,xterm,mousepad,netsurf-gtk,fonts-dejavu-core
DEBIAN_MORE_PACKAGES=$DEBIAN_MORE_PACKAGES,adwaita-icon-theme,shared-mime-info
DEBIAN_MORE_FILES=$HERE/desktop
DEBIAN_MORE_UNITS='xserver.service desktop.service'
export DEBIAN_MORE_PACKAGES DEBIAN_MORE_FILES DEBIAN_MORE_UNITS

recipe_begin "$@"
debian_build desktop bookworm 'Debian 12 (bookworm) with a desktop,'
