#!/bin/sh
# symlink.sh PATH TARGET - ends as read.sh does.
. ./take-path.sh
{ [ -e "$p" ] || [ -L "$p" ]; } && exit 117
ln -s -- "$2" "$p"
