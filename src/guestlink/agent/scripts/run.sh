#!/bin/sh
# run.sh TAG USER CWD TAIL_MAX ENV_AND_ARGV... - as root: runs a command as USER; its environment
# and its arguments are as `env -i` takes them. The output goes into files, because a background
# process that holds a pipe open would hold up the agent. Prints the tails of both streams, and then
# on stderr "\nTAG end CODE STDOUT_BYTES STDERR_BYTES\n", or "\nTAG user|cwd|exec ERRNO TEXT\n" if the
# command did not start.
t=$1 u=$2 d=$3 m=$4; shift 4
no() { printf '\n%s %s %s %s\n' "$t" "$1" "$2" "$3" >&2; exit 125; }
# u=name i=uid g=gid h=home s=shell of the user
# shellcheck disable=SC2034 # x takes what is of no use
find_user() { while IFS=: read -r a x i g x h s; do
  if [ "$a" = "$u" ] || [ "$i" = "$u" ]; then return 0; fi; done; return 1; }
u=${u:-0}
# shellcheck disable=SC1007,SC2034 # a= is no name; x again
if find_user </etc/passwd; then :
elif p=$(getent passwd "$u" 2>/dev/null) && [ -n "$p" ]; then
  IFS=: read -r a x i g x h s <<E
$p
E
else case $u in
  0) a=root i=0 g=0 h=/root s=/bin/sh ;;
  *[!0-9]*) no user 2 "no such user: $u" ;;
  *) a= i=$u g=65534 h=/ s=/bin/sh ;;
  esac; fi
k=$(mktemp -d /tmp/moat.XXXXXX 2>/dev/null || mktemp -d /dev/shm/moat.XXXXXX) ||
  no exec 28 'no place for temporary files'
trap 'rm -rf "$k"' EXIT
# As the user: TAG CWD HOME NAME SHELL ENV_AND_ARGV...
# shellcheck disable=SC2016 # for the inner shell
r='t=$1 d=$2 h=$3 a=$4 s=$5; shift 5
no() { printf "\n%s cwd %s %s\n" "$t" "$1" "$d: $2" >&2; exit 125; }
cd "$h" 2>/dev/null || cd /
if [ -n "$d" ] && ! cd "$d" 2>/dev/null; then
  [ -e "$d" ] || no 2 "No such file or directory"
  [ -d "$d" ] || no 20 "Not a directory"
  no 13 "Permission denied"
fi
exec env -i HOME="$h" SHELL="$s" ${a:+USER="$a" LOGNAME="$a"} "$@"'
set -- "$t" "$d" "$h" "$a" "${s:-/bin/sh}" "$@"
# A shell whose child was killed says so on its own stderr: not ours to pass on.
exec 3>&2 2>/dev/null
( exec 3>&-
if [ "$i" = "$(id -u)" ]; then exec /bin/sh -c "$r" sh "$@"
elif setpriv --reuid 0 --clear-groups true 2>/dev/null; then
  o=--init-groups; [ -n "$a" ] || o=--clear-groups
  exec setpriv --reuid "$i" --regid "$g" $o /bin/sh -c "$r" sh "$@"
elif [ -n "$a" ] && command -v su >/dev/null; then
  exec su -s /bin/sh -c "$r" -- "$a" sh "$@"
else no user 38 'the guest has neither setpriv nor a su that can switch to this user'
fi ) >"$k/o" 2>"$k/e"
c=$?
exec 2>&3 3>&-
tail -c "$m" "$k/o"; tail -c "$m" "$k/e" >&2
# shellcheck disable=SC2046 # some print blanks before the number
printf '\n%s end %s %s %s\n' "$t" "$c" $(wc -c <"$k/o") $(wc -c <"$k/e") >&2
