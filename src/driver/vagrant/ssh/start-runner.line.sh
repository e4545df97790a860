# shellcheck shell=sh
# start-runner.line.sh root|user - finds the runner, or takes it in, and becomes it; v is the line
# that it prints of itself. As root only directories are used that others cannot write to, otherwise
# only files of our own. The file for SFTP is whose login it is.
# shellcheck disable=SC2015,SC2034,SC2086,SC2093,SC2154,SC2162
r=$1; d=$HOME/.cache/moat; t=/tmp;
[ $r = user ] || d="/var/lib/moat /usr/local/lib/moat /opt/moat";
for p in $d; do f=$p/moat-guest;
  [ -x "$f" ] && [ "$("$f" version 2>/dev/null </dev/null)" = "$v" ] || continue;
  [ $r = root ] || [ -O "$f" ] || continue;
  echo "moat:run:$r"; exec "$f" serve -; done;
[ -w /tmp ] || t=$HOME; n=$(mktemp "$t/moat-guest.XXXXXX") &&
{ [ -z "$SUDO_UID" ] || chown "$SUDO_UID" "$n"; } ||
{ echo "moat:no:there is no place for a file in /tmp or the home directory"; exit 1; };
echo "moat:put:$(uname -m):$n"; read go;
for p in $d; do f=$p/moat-guest;
  mkdir -p "$p" && cp "$n" "$f.new" && chmod 755 "$f.new" &&
  [ "$("$f.new" version </dev/null)" = "$v" ] && mv -f "$f.new" "$f" || continue;
  rm -f "$n"; echo "moat:run:$r"; exec "$f" serve -; done 2>/dev/null;
rm -f "$n"; echo "moat:no:it cannot be run from any of: $d"; exit 1
