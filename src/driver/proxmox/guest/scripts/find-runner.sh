#!/bin/sh
# find-runner.sh [ARCH SIZE CRC]... - looks for the runner of this machine's architecture, with that
# size and check sum. Prints where it is, and has it make its spool directory; otherwise prints ARCH
# and makes a file for it. 94: there is none for this machine; prints what that is. Some of the places
# are open to all: only a file of our own user is trusted (-O).
. ./prepare.sh
m=$(uname -m)
while [ "$1" != "$m" ]; do [ $# -gt 3 ] || { printf %s "$m"; exit 94; }; shift 3; done
. ../../../../guestlink/agent/scripts/places.sh
for d in $places; do f=$d/moat-guest
  # shellcheck disable=SC2015 # if any of these is false
  [ -x "$f" ] && [ -O "$f" ] && [ ! -L "$f" ] || continue
  "$f" check "$2" "$3" 2>/dev/null || continue
  "$f" forget 0 && printf %s "$f" && exit 0
done
printf "%s " "$m"
. ../../../../guestlink/agent/scripts/new-runner-file.sh
