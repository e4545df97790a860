#!/bin/sh
# join-runner.sh SIZE CRC FILE COUNT - makes the runner of its COUNT parts, FILE.0 and so on, and
# prints where it stays. 93: it cannot be run. May run twice.
. ./prepare.sh
f=${3%.*}
"$f" check "$1" "$2" 2>/dev/null && "$f" forget 0 && printf %s "$f" && exit 0
i=0; while [ $i -lt "$4" ]; do cat "$3.$i" || exit 93; i=$((i+1)); done >"$3" || exit 93
chmod 755 "$3" && mv -f "$3" "$f" || exit 93
i=0; while [ $i -lt "$4" ]; do rm -f "$3.$i"; i=$((i+1)); done
"$f" check "$1" "$2" || { rm -f "$f"; echo 'it does not run there' >&2; exit 93; }
"$f" forget 0 || exit 93
printf %s "$f"
