#!/bin/sh
# unpack.sh PREFIX COUNT COUNT - runs a command that was too long for one call of the agent. The parts
# PREFIX.s.0 and so on are a line "set -- WORD...", those from PREFIX.i.0 on are the command's input.
. ./prepare.sh
p=$1; j() { i=0; while [ $i -lt "$2" ]; do cat "$p.$1.$i" || exit 120
  rm -f "$p.$1.$i"; i=$((i+1)); done >"$p.$1"; }
j s "$2"; j i "$3"; exec <"$p.i"; rm -f "$p.i"
# shellcheck source=/dev/null
. "$p.s"
rm -f "$p.s"
exec "$@"
