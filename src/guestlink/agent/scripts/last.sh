#!/bin/sh
# last.sh TAG ARGV... - the end of run.sh, with the command's user and environment: becomes the
# command, or says why it cannot.
t=$1; shift
no() { printf '\n%s exec %s %s\n' "$t" "$1" "$2" >&2; exit 125; }
# shellcheck disable=SC2015 # if any of these is false
case $1 in
*/*) [ -e "$1" ] || no 2 "$1: No such file or directory"
  [ -x "$1" ] && [ ! -d "$1" ] || no 13 "$1: Permission denied" ;;
*) command -v -- "$1" >/dev/null 2>&1 || no 2 "$1: No such file or directory" ;;
esac
exec "$@"
