#!/bin/sh
# Starting and stopping the daemon: on demand, once, whatever is in the way. No VM.
# shellcheck source=lib.sh disable=SC2119
. "$(dirname "$0")/lib.sh"

expect "nothing runs at first" 4 info
says "and that is said" err "no daemon is running"
expect "completion's question starts nothing" 4 ls -q --no-start
check "really" test ! -e "$MOAT_HOME/run/moat.sock"
expect "a question starts a daemon" 0 ls --json
check "and is answered" grep -qx '{"sandboxes":\[\]}' "$tmp/out"
first=$(daemon_pid)
check "its log is where it belongs" grep -q serves "$MOAT_HOME/state/daemon.log"
check "its socket is private" test "$(stat -c %a "$MOAT_HOME/run/moat.sock")" = 600
check "it is in a session of its own" test "$(ps -o sid= -p "$first" | tr -d ' ')" = "$first"
check "it has no file of ours" sh -c "! ls -l /proc/$first/fd | grep -q '$tmp/out'"
expect "serve --background again" 0 serve --background
check "is the same one" test "$(daemon_pid)" = "$first"
expect "serve in the foreground besides it" 1 serve
says "is refused" err .
# One look at a process: it may go from a zombie to nothing between two.
expect "stop" 0 serve --stop
says "names it" err "$first"
check "it is gone" sh -c "! grep -qs 'State:.[^Z]' /proc/$first/status"
expect "a second stop is fine" 0 serve --stop

# Twelve clients at the same time start one daemon.
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
	"$MOAT" info --json >"$tmp/many.$i" 2>/dev/null || "$MOAT" ls >/dev/null 2>&1 && "$MOAT" info --json >"$tmp/many.$i" &
done
wait
check "twelve clients find one daemon" test "$(sed 's/.*"pid":\([0-9]*\).*/\1/' "$tmp"/many.* | sort -u | wc -l)" -eq 1

# A daemon that is killed leaves its socket behind.
kill -9 "$(daemon_pid)"
check "a stale socket" test -S "$MOAT_HOME/run/moat.sock"
expect "is no obstacle" 0 ls
expect "stop again" 0 serve --stop

# A daemon that cannot start says why.
mkdir -p "$MOAT_HOME/run"
rm -f "$MOAT_HOME/run/moat.sock"
printf 'no_such_setting: 1\n' >"$MOAT_HOME/config.yaml"
expect "a wrong configuration file" 4 ls
says "is named by who wanted a daemon" err "no_such_setting"
expect "and in the foreground" 1 serve
rm "$MOAT_HOME/config.yaml"
long=$tmp/$(printf '%0150d' 1)
MOAT_HOME=$long expect "a directory whose path is longer than a socket's may be" 0 ls
MOAT_HOME=$long expect "has a daemon" 0 info
check "with its socket there" test -S "$long/run/moat.sock"
MOAT_HOME=$long expect "which can be stopped" 0 serve --stop
says "by its pid" err "has ended"
PATH=/nowhere MOAT_HOME=$tmp/bare expect "doctor where there is nothing" 1 doctor
says "names what is missing" out "^missing  *qemu  *qemu-img"
says "and the fix" out "qemu-img  *apt-get install qemu-utils"
says "and the directories in force" out "^  state  *$tmp/bare/state"
MOAT_HOME=$tmp/bare expect "doctor as JSON" 1 doctor --json qemu
check "has the fixes" json "$tmp/out" 'any(c["state"] == "missing" and c["fix"] for c in d["checks"])'
MOAT_HOME=$tmp/bare expect "that daemon ends" 0 serve --stop
if [ "$(id -u)" -ne 0 ]; then
	mkdir "$tmp/closed" && chmod 555 "$tmp/closed"
	MOAT_HOME=$tmp/closed/x expect "a directory that cannot be made" 1 ls
fi
expect "the last daemon of this home" 0 serve --stop

# All logins of a user find one daemon, whatever their XDG_RUNTIME_DIR is: another one, none (su, cron), or a directory
# that was removed at the last logout.
# shellcheck disable=SC2317 # called by the trap
end_logins() { # also daemons that cannot be reached any more
	grep -lszx "HOME=$tmp/user" /proc/[0-9]*/environ | tr -dc '0-9\n' | while read -r process; do
		kill -9 "$process" 2>/dev/null
	done
	finish
}
trap end_logins EXIT
old_home=$HOME
unset MOAT_HOME MOAT_DATA_DIR XDG_STATE_HOME XDG_DATA_HOME XDG_CACHE_HOME XDG_CONFIG_HOME
mkdir "$tmp/user"
mkdir -m 700 "$tmp/seat1" "$tmp/seat2"
login() { # XDG_RUNTIME_DIR, or "" for none
	export HOME="$tmp/user" XDG_RUNTIME_DIR="$1"
	[ -n "$1" ] || unset XDG_RUNTIME_DIR
}
log=$tmp/user/.local/state/moat/daemon.log
state=$tmp/user/.local/state/moat

login "$tmp/seat1"
expect "a login starts a daemon" 0 ls
first=$(daemon_pid)
login ""
expect "a login without runtime directory" 0 ls
check "has the same daemon" test "$(daemon_pid)" = "$first"
login "$tmp/seat2"
expect "a login with another one" 0 ls
check "has the same daemon, too" test "$(daemon_pid)" = "$first"
rm -rf "$tmp/seat1" "$tmp/seat2"
expect "a login whose directory was removed" 0 ls
check "has the same daemon as well" test "$(daemon_pid)" = "$first"
login "$tmp/seat1"
check "and so has the first one" test "$(daemon_pid)" = "$first"
login ""
expect "any login can stop it" 0 serve --stop --force
says "and is told which" err "(pid $first) has ended"
check "it has ended" sh -c "! grep -qs 'State:.[^Z]' /proc/$first/status"

# Clients of all logins start one daemon, at the same time.
mkdir -m 700 "$tmp/seat1" "$tmp/seat2"
: >"$log"
many=
for seat in seat1 seat2 "" seat1 seat2 "" seat1 seat2 "" seat1 seat2 ""; do
	login "${seat:+$tmp/$seat}"
	"$MOAT" ls >/dev/null 2>"$tmp/many.err" &
	many="$many $!"
done
failures=0
for client in $many; do
	wait "$client" || failures=$((failures + 1))
done
check "clients of three logins start a daemon, at the same time" test "$failures" -eq 0
check "which is one" test "$(grep -c ' serves ' "$log")" -eq 1

# The socket's file is removed under a running daemon.
first=$(daemon_pid)
find "$tmp/user" "$tmp/seat1" "$tmp/seat2" -name moat.sock -delete
expect "a client just after the socket's file was removed" 0 ls
check "has the same daemon" test "$(daemon_pid)" = "$first"
find "$tmp/user" "$tmp/seat1" "$tmp/seat2" -name moat.sock -delete
expect "a stop just after that" 0 serve --stop
says "finds it, too" err "(pid $first) has ended"

# MOAT_RUNTIME_DIR is set in one login and not in the other: the lock of the state directory has noted the socket.
login ""
export MOAT_RUNTIME_DIR="$tmp/place"
expect "a login with a place of its own" 0 ls
check "has the socket there" test -S "$tmp/place/moat.sock"
first=$(daemon_pid)
unset MOAT_RUNTIME_DIR
expect "a login without it" 0 ls
check "has the same daemon" test "$(daemon_pid)" = "$first"
rm -rf "$tmp/place"
check "also when the place was removed: it is made again" wait_for "$MOAT" info
check "with the same daemon" test "$(daemon_pid)" = "$first"
check "and its socket" test "$(stat -c %a "$tmp/place" "$tmp/place/moat.sock" | tr '\n' ' ')" = "700 600 "
expect "serve besides it" 1 serve
says "is refused" err "another daemon is using"

# A killed daemon leaves its note. Whoever listens there now is no daemon of ours.
kill -9 "$first"
check "a note of a killed daemon" grep -q "^$first .*$tmp/place/moat.sock" "$state/daemon.lock"
rm -f "$tmp/place/moat.sock"
python3 "$here/rogue-daemon.py" "$tmp/place/moat.sock" "$tmp/log" >"$tmp/rogue.out" 2>&1 &
rogue_pid=$!
wait_for test -S "$tmp/place/moat.sock"
expect "is not believed" 4 info
says "by who wants no new daemon" err "no daemon is running"
expect "nor by who stops one" 0 serve --stop
says "which is none" err "no daemon is running"
expect "nor by who starts one" 0 ls
check "which has noted its own place" grep -qx "$(daemon_pid) .* $state/moat.sock" "$state/daemon.lock"
kill "$rogue_pid"
wait "$rogue_pid" 2>/dev/null
rogue_pid=

# Another host has this state directory, too, and its daemon holds the lock.
expect "this daemon ends" 0 serve --stop
check "and takes its note along" test ! -s "$state/daemon.lock"
echo "4242 elsewhere.example $tmp/place/moat.sock" >"$state/daemon.lock"
(flock -x 9 && echo held && exec sleep 600) 9<"$state/daemon.lock" >"$tmp/held" &
holder=$!
wait_for grep -q held "$tmp/held"
expect "stop names the daemon of another host" 4 serve --stop
says "by host and pid" err "on the host elsewhere.example (pid 4242)"
expect "and so does a start" 1 serve
says "by host" err "pid 4242 on the host elsewhere.example"
kill "$holder"
wait "$holder" 2>/dev/null
HOME=$old_home
end_tests
