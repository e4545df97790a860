# shellcheck shell=sh
# run.sh NAME - inside an image. stdin: a program, which is run with nothing on its own stdin.
dir=$(mktemp -d /tmp/moat-XXXXXX)
trap 'rm -rf "$dir"' EXIT
program=$dir/${1##*/}
cat >"$program"
chmod 700 "$program"
cd /
case $(head -c 2 "$program") in
'#!') "$program" </dev/null ;;
*) sh -e "$program" </dev/null ;;
esac
