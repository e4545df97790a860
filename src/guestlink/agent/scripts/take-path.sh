# shellcheck shell=sh
# p is $1. A name that looks like an option is none.
p=$1; case $p in -*) p=./$p ;; esac
