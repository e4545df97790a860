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
expect "stop" 0 serve --stop
says "names it" err "$first"
check "it is gone" sh -c "! kill -0 $first || grep -q 'State:.Z' /proc/$first/status"
expect "a second stop is fine" 0 serve --stop

# Twelve at once: one daemon.
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
	"$MOAT" info --json >"$tmp/many.$i" 2>/dev/null || "$MOAT" ls >/dev/null 2>&1 && "$MOAT" info --json >"$tmp/many.$i" &
done
wait
check "twelve clients find one daemon" test "$(sed 's/.*"pid":\([0-9]*\).*/\1/' "$tmp"/many.* | sort -u | wc -l)" -eq 1

# One that is killed leaves its socket behind.
kill -9 "$(daemon_pid)"
check "a stale socket" test -S "$MOAT_HOME/run/moat.sock"
expect "is no obstacle" 0 ls
expect "stop again" 0 serve --stop

# What cannot work says why.
mkdir -p "$MOAT_HOME/run"
rm -f "$MOAT_HOME/run/moat.sock"
printf 'no_such_setting: 1\n' >"$MOAT_HOME/config.yaml"
expect "a wrong configuration file" 4 ls
says "is named by who wanted a daemon" err "no_such_setting"
expect "and in the foreground" 1 serve
rm "$MOAT_HOME/config.yaml"
MOAT_HOME=$tmp/$(printf '%0100d' 1) expect "a socket path that is too long" 1 ls
says "says what to set" err MOAT_RUNTIME_DIR
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
end_tests
