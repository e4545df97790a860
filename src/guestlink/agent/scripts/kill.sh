#!/bin/sh
# kill.sh TAG PID - kills all descendants of PID and all processes that carry TAG in their
# environment.
t=$1 p=$2
n=0; while [ $n -lt 20 ]; do n=$((n+1))
  d=" $p " v=
  # A pass finds children; another their children, until nothing is new. ${l##*) } is the fields
  # after the name.
  # shellcheck disable=SC2086
  while :; do o=$d
    for f in /proc/[0-9]*/stat; do
      { read -r l <"$f"; } 2>/dev/null || continue
      q=${f#/proc/}; q=${q%/stat}; set -- ${l##*) }
      [ "$1" = Z ] && continue
      case $d in *" $q "*) continue ;; *" $2 "*) d="$d$q " v="$v $q" ;; esac
    done
    [ "$o" = "$d" ] && break
  done
  # shellcheck disable=SC2013 # names without blanks
  for f in $(grep -ls "MOAT_EXEC=$t" /proc/[0-9]*/environ 2>/dev/null); do
    q=${f#/proc/}; v="$v ${q%/environ}"
  done
  [ -n "$v" ] || exit 0
  # shellcheck disable=SC2086 # a list of numbers
  kill -9 $v 2>/dev/null
done
exit 1
