#!/bin/sh
# exec and shell: streams, exit codes, signals, terminals; against a fake daemon.
# shellcheck source=lib.sh disable=SC2016,SC2086,SC2119,SC3045
. "$(dirname "$0")/lib.sh"
start_fake

expect "exec" 0 exec $id echo hello
check "stdout is stdout" test "$(cat "$tmp/out")" = hello
expect "exit codes pass through" 42 exec $id sh -c 'echo oops >&2; exit 42'
check "stderr is stderr" test "$(cat "$tmp/err")" = oops
silent "and not stdout" out
expect "options after the sandbox belong to the command" 0 exec $id echo --json -i
check "all of them" test "$(cat "$tmp/out")" = "--json -i"
expect "-- is taken once" 0 exec $id -- echo -- x
check "and only once" test "$(cat "$tmp/out")" = "-- x"
expect "signals are 128 + n" 137 exec $id sh -c 'kill -9 $$'
expect "a command that is not there" 127 exec $id no-such-command
says "says so" err "not found"
expect "a command that takes too long" 124 exec --timeout 0.3 $id sleep 60
says "says so too" err "killed after 0.3 seconds"
expect "no such sandbox" 125 exec zzzz true
expect "no such machine" 125 exec --vm nobody $id true
export PASSED=through
expect "environment" 0 exec -e A=1 -e B=x=y -e PASSED -e NOT_SET_HERE $id sh -c 'echo $A $B $PASSED ${NOT_SET_HERE-none}'
check "arrives" test "$(cat "$tmp/out")" = "1 x=y through none"
expect "directory" 0 exec -w / $id pwd
check "is changed" test "$(cat "$tmp/out")" = /
expect "user and machine" 0 exec -u root --vm router $id true
check "arrive too" grep -q '"user": "root", "vm": "router"' "$tmp/log"

echo data | moat exec $id cat >"$tmp/out"
silent "stdin is not given without -i" out
head -c 5000000 /dev/urandom >"$tmp/blob"
moat exec -i $id cat <"$tmp/blob" >"$tmp/out"
check "5 MB through stdin and stdout" cmp "$tmp/blob" "$tmp/out"
moat exec -i $id sh -c 'cat >/dev/null; exec sha256sum' <"$tmp/blob" >"$tmp/out"
check "stdin ends" grep -q '^e3b0c442' "$tmp/out"
in_little_memory "$MOAT" exec $id head -c 300000000 /dev/zero >"$tmp/blob2"
check "300 MB of output, in little memory" test $? -eq 0
check "and all of it" test "$(wc -c <"$tmp/blob2")" -eq 300000000
moat exec $id sh -c 'yes | head -c 10000000' | head -c 2 >"$tmp/out"
check "a reader that leaves early is no disaster" test "$(cat "$tmp/out")" = y

expect "--json" 3 exec --json $id sh -c 'printf a; printf "\377" >&2; exit 3'
check "has exit code and streams" python3 -c '
import json, sys
d = json.load(open(sys.argv[1]))
assert (d["exit_code"], d["stdout"], d["stderr_base64"]) == (3, "a", "/w=="), d' "$tmp/out"

background exec $id sh -c 'echo ready; exec sleep 60'
wait_for grep -q ready "$tmp/out"
kill -TERM $pid
wait $pid
check "an interrupt ends exec with 130" test $? -eq 130
check "and cancels the command" grep -q "^cancelled" "$tmp/log"

background exec $id sh -c 'echo ready; exec sleep 60'
wait_for grep -q ready "$tmp/out"
kill -STOP "$fake_pid"
kill -TERM $pid
sleep 0.2
check "a daemon that hangs keeps us waiting" kill -0 $pid
kill -TERM $pid
wait $pid
check "until the second interrupt" test $? -eq 130
kill -CONT "$fake_pid"

echo 'echo from-shell; exit 5' | moat shell $id >"$tmp/out"
check "shell reads commands from a pipe" test $? -eq 5
says "and runs them" out from-shell

if command -v script >/dev/null; then
	script -qec "stty rows 33 cols 77; $MOAT exec -it $id stty size; echo code=\$?; stty -a" /dev/null >"$tmp/tty" </dev/null
	check "the terminal's size arrives" grep -q "33 77" "$tmp/tty"
	check "the exit code comes back" grep -q "code=0" "$tmp/tty"
	check "and the terminal is sane again" grep -q " icanon" "$tmp/tty"
	script -qec "$MOAT exec -t $id printf '\033[31m'" /dev/null >"$tmp/tty" </dev/null
	check "with a terminal, control characters pass" grep -q "$(printf '\033\[31m')" "$tmp/tty"
	script -qec "$MOAT exec $id printf '\033[31mh\303\251'" /dev/null >"$tmp/tty" </dev/null
	check "without, they are escaped and letters are not" grep -q "$(printf '\\\\x1b\\[31mh\303\251')" "$tmp/tty"
	check "exec -it raw mode, resize and interrupt" python3 "$here/pty-session.py" "$MOAT" "$id"
fi
end_tests
