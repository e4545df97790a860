# shellcheck shell=sh
# p is $1. Ends with 100 + errno if it is not there or cannot be reached.
. ./take-path.sh
[ -e "$p" ] || [ -L "$p" ] || { q=${p%/*}
  [ "$q" = "$p" ] || [ -z "$q" ] || [ -x "$q" ] || [ ! -d "$q" ] || exit 113
  exit 102; }
