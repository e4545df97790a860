#!/bin/sh
# What the command line bears from a daemon, or from a guest behind it, that breaks the rules; see rogue-daemon.py.
# shellcheck source=lib.sh disable=SC2119
. "$(dirname "$0")/lib.sh"
cd "$tmp" || exit 1
umask 022

start_rogue() {
	mkdir -p "$MOAT_HOME/run"
	rm -f "$MOAT_HOME/run/moat.sock"
	: >"$tmp/log"
	python3 "$here/rogue-daemon.py" "$MOAT_HOME/run/moat.sock" "$tmp/log" "$@" >"$tmp/rogue.out" 2>&1 &
	rogue_pid=$!
	wait_for test -S "$MOAT_HOME/run/moat.sock"
}

start_rogue
mkdir -p outside
echo mine >outside/file
expect "a hostile directory" 1 cp evil:x dst
check "nothing above the destination" test ! -e escaped
check "nothing in /etc" test ! -e /etc/escaped
check "links are made" test "$(readlink dst/door)" = ../outside
check "and never gone through by directories" test "$(ls outside)" = file
check "nor by files" test "$(cat outside/file)" = mine
check "setuid is dropped" test "$(stat -c %a dst/suid)" = 755
check "what is harmless is copied" test "$(cat dst/good)" = evil
says "refusals are told" err 'refused the name "../escaped"'
says "and escaped" err 'esc\\x1b\[31m'
says "a name of two lines is one line" err 'two\\x0amoat: lines: a link without'
check "and makes no message" test -z "$(grep '^moat: lines' "$tmp/err")"
expect "a name with NUL" 4 cp evil:nul/ nuldst
check "leaves nothing" test ! -e nuldst
expect "a directory without end" 1 cp evil:deep/ deepdst
says "has an end" err "nested too deeply"
check "long listings, in little memory" in_little_memory "$MOAT" cp evil:long/ longdst
expect "names of directories without end" 1 cp evil:names/ namesdst
says "have an end, too" err "too many directories"

background up slow
wait_for grep -q booting "$tmp/err"
kill -TERM "$pid"
wait "$pid"
check "an interrupted up ends with 130" test $? -eq 130
check "was cancelled" grep -q "^cancelled" "$tmp/log"
silent "prints no id" out
check "escapes what the daemon says" grep -q 'booting \\x1b' "$tmp/err"

for breach in nothing half huge blob garbage list typeless empty stranger; do
	expect "instead of an answer: $breach" 4 ls "$breach"
	silent "which is no answer" out
	says "and is told in one line" err "^moat: ."
	expect "after some output: $breach" 125 exec "$breach" true
	check "which is shown" test "$(cat "$tmp/out")" = "so far"
done
expect "an error of the connection" 1 ls angry
says "is escaped" err 'go \\x1b\[2Jaway'
expect "members of the wrong type" 0 ls
says "are no disaster" out '^abcd1234  esc\\x1b'

# A running daemon of another version, whose protocol we do not speak, can still be stopped.
kill "$rogue_pid"
wait "$rogue_pid" 2>/dev/null
start_rogue --protocol 7
expect "a daemon that speaks another protocol" 4 ls
says "names its pid" err "pid $rogue_pid"
says "says what to do" err "moat serve --stop"
expect "it can be stopped all the same" 0 serve --stop --force
wait "$rogue_pid"

# A daemon that has too many clients, or is about to exit.
start_rogue --refuse 3
expect "a daemon that hangs up before its hello is asked again" 0 ls -q
check "and answers" test "$(cat "$tmp/out")" = abcd1234
end_tests
