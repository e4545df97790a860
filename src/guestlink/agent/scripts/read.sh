#!/bin/sh
# read.sh PATH OFFSET COUNT - prints so much of a file, and "SIZE HEXMODE\n" on stderr. This and the
# scripts for files below run as the user, in the directory, and end with 100 + errno where they can
# tell.
. ./refuse-unreadable.sh
[ -d "$p" ] && exit 121
[ -r "$p" ] || exit 113
stat -L -c '%s %f' -- "$p" >&2 || exit 1
if [ "$2" = 0 ]; then head -c "$3" "$p"
else tail -c "+$(($2+1))" "$p" | head -c "$3"; fi
