#!/bin/sh
# list.sh PATH - prints lines "HEXMODE SIZE MTIME\n", an empty line, then for each NAME NUL TARGET NUL;
# for anything but a directory one of them, with an empty name. Ends as read.sh does.
. ./refuse-unreadable.sh
l() { [ ! -L "$1" ] || readlink "$1" | tr -d '\n'; printf '\0'; }
e() { for f; do printf '%s\0' "${f##*/}"; l "$f"; done; }
if [ ! -d "$p" ]; then stat -c '%f %s %Y' -- "$p" || exit 1
  printf '\n\0'; l "$p"; exit 0; fi
{ [ -r "$p" ] && [ -x "$p" ]; } || exit 113
case $p in /*) ;; *) p=./$p ;; esac
set --
for f in "$p"/* "$p"/.[!.]* "$p"/..?*; do
  { [ -e "$f" ] || [ -L "$f" ]; } && set -- "$@" "$f"; done
[ $# = 0 ] || stat -c '%f %s %Y' "$@" || exit 1
echo; e "$@"
