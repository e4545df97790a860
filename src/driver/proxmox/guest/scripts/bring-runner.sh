#!/bin/sh
# bring-runner.sh COUNT TEXT... [ARCH SIZE CRC]... - does what find-runner.sh does. But if the guest
# has no runner, and wants that of the first architecture, it is made of the COUNT texts, which are
# its base64. May run twice.
. ./prepare.sh
n=$1; t=; shift
while [ "$n" -gt 0 ]; do t=$t$1; n=$((n-1)); shift; done
said=$(
. ./find-runner.sh
)
code=$?; f=${said#* }
if [ $code = 92 ] && [ "${said%% *}" = "$1" ] && printf %s "$t" | base64 -d >"$f" && chmod 755 "$f" &&
  "$f" check "$2" "$3" && mv -f "$f" "${f%.*}" && "${f%.*}" forget 0; then said=${f%.*}; code=0; fi 2>/dev/null
printf %s "$said"; exit $code
