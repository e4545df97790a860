# shellcheck shell=sh
# copy.sh TO NAME - inside an image. stdin: a tar file of one file or directory, "copy". It becomes
# TO, or TO/NAME where TO is a directory or ends with a slash.
to=$1
case $to in
*/) mkdir -p "$to" ;;
esac
[ ! -d "$to" ] || to=${to%/}/$2
mkdir -p "$(dirname "$to")"
new=$(mktemp -d "$(dirname "$to")/.moat-XXXXXX")
trap 'rm -rf "$new"' EXIT
tar -x -f - -C "$new"
if [ -d "$new/copy" ] && [ -d "$to" ]; then
	cp -a "$new/copy/." "$to/"
else
	mv -fT "$new/copy" "$to"
fi
