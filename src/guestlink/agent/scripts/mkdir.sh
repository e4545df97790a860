#!/bin/sh
# mkdir.sh PATH MODE|"" - makes a directory and its parents. Ends as read.sh does.
. ./take-path.sh
umask 022
[ -d "$p" ] && exit 0
[ -e "$p" ] && exit 117
mkdir -p -- "$p" || exit 1
[ -z "$2" ] || chmod "$2" "$p"
