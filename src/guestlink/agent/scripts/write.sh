#!/bin/sh
# write.sh PATH MODE|"" PARENTS(0|1) APPEND(0|1) - writes its input to a file. Ends as read.sh does.
. ./take-path.sh
umask 022; q=${p%/*}
if [ "$q" != "$p" ] && [ -n "$q" ]; then
  if [ "$3" = 1 ]; then
    mkdir -p -- "$q" || { [ -e "$q" ] && [ ! -d "$q" ] && exit 120; exit 113; }
  elif [ ! -d "$q" ]; then exit 102; fi
fi 2>/dev/null
[ -d "$p" ] && exit 121
if [ -e "$p" ]; then [ -w "$p" ] || exit 113
else q=${p%/*}; [ "$q" = "$p" ] && q=.; [ -w "${q:-/}" ] || exit 113; fi
if [ "$4" = 1 ]; then cat >>"$p"; else cat >"$p"; fi || exit 1
[ -z "$2" ] || chmod "$2" "$p"
