#!/bin/sh
# exec and shell: streams, exit codes, signals, terminals; in a real VM.
# shellcheck source=lib.sh disable=SC2016,SC2086,SC2119,SC2317
. "$(dirname "$0")/lib.sh"
use_sandbox

running() { # NUMBER PATTERN: so many processes of the guest
	test "$(moat exec -u root $id sh -c "ps | grep -c '$2'" </dev/null)" = "$1"
}

expect "exec" 0 exec $id echo hello
check "stdout is stdout" test "$(cat "$tmp/out")" = hello
expect "exit codes pass through" 42 exec $id sh -c 'echo oops >&2; exit 42'
check "stderr is stderr" test "$(cat "$tmp/err")" = oops
silent "and not stdout" out
expect "both at once" 0 exec $id sh -c 'echo out; echo err >&2'
check "each has its own" test "$(cat "$tmp/out" "$tmp/err" | tr '\n' ' ')" = "out err "
expect "the first characters of an id" 0 exec "$(printf %.4s $id)" true
expect "options after the sandbox belong to the command" 0 exec $id echo --json -i
check "all of them" test "$(cat "$tmp/out")" = "--json -i"
expect "-- is taken once" 0 exec $id -- echo -- x
check "and only once" test "$(cat "$tmp/out")" = "-- x"
expect "signals are 128 + n" 137 exec $id sh -c 'kill -9 $$'
expect "a user that a script forgot is not root" 125 exec -u "" $id id
says "a user that is not given" err "user: is empty"
expect "a command that is not there" 127 exec $id no-such-command
says "says so" err "no-such-command: No such file"
expect "an option after the sandbox" 127 exec $id --vm default true
says "tells where options stand" err "options of exec stand before the sandbox"
expect "a command that cannot be run" 126 exec $id /etc/passwd
says "says so as well" err "/etc/passwd: Permission denied"
expect "no such user" 126 exec -u nobody-at-all $id true
says "is named" err "nobody-at-all"
expect "no such directory" 126 exec -w /no/such/dir $id true
says "is named as well" err "/no/such/dir"
expect "a command that takes too long" 124 exec --timeout 0.5 $id sh -c 'sleep 101 & sleep 101'
says "says so too" err "killed after 0.5 seconds"
check "it is killed with all its children" running 0 '[s]leep 101'
expect "no such sandbox" 125 exec zzzz true
says "is named too" err zzzz
expect "no such machine" 125 exec --vm nobody $id true
says "is named as well as the sandbox" err nobody
export PASSED=through
expect "environment" 0 exec -e A=1 -e B=x=y -e 'C=b c' -e PASSED -e NOT_SET_HERE $id \
	sh -c 'echo "$A $B $C $PASSED ${NOT_SET_HERE-none}"'
check "arrives" test "$(cat "$tmp/out")" = "1 x=y b c through none"
expect "directory" 0 exec -w /etc $id pwd
check "is changed" test "$(cat "$tmp/out")" = /etc
expect "without any" 0 exec $id sh -c 'id -un; pwd'
check "it is the image's user, at home" test "$(tr '\n' ' ' <"$tmp/out")" = "user /home/user "
expect "user and machine" 0 exec -u root --vm screen $id sh -c 'id -un; touch /root/here'
check "arrive too" test "$(cat "$tmp/out")" = root
expect "a file of that machine" 0 exec -u root --vm screen $id test -e /root/here
expect "is not in the other one" 1 exec -u root --vm default $id test -e /root/here

echo data | moat exec $id cat >"$tmp/out"
silent "stdin is not given without -i" out
head -c 5000000 /dev/urandom >"$tmp/blob"
moat exec -i $id cat <"$tmp/blob" >"$tmp/out"
check "5 MB through stdin and stdout" cmp "$tmp/blob" "$tmp/out"
moat exec -i $id sh -c 'cat >/dev/null; exec sha256sum' <"$tmp/blob" >"$tmp/out"
check "stdin ends" grep -q '^e3b0c442' "$tmp/out"
in_little_memory "$MOAT" exec $id dd if=/dev/zero bs=64k count=2000 >"$tmp/blob2" 2>/dev/null
check "131 MB of output, in little memory" test $? -eq 0
check "and all of it" test "$(wc -c <"$tmp/blob2")" -eq 131072000
moat exec $id sh -c 'yes | dd bs=64k count=150 2>/dev/null' | head -c 2 >"$tmp/out"
check "a reader that leaves early is no disaster" test "$(cat "$tmp/out")" = y

expect "--json" 3 exec --json $id sh -c 'printf a; printf "\377" >&2; exit 3'
check "has exit code and streams" json "$tmp/out" '(d["exit_code"], d["stdout"], d["stderr_base64"]) == (3, "a", "/w==")'
silent "nothing was cut" err
expect "--json with much output" 0 exec --json $id sh -c 'head -c 11000000 /dev/zero | tr "\0" x; printf end; echo e >&2'
check "keeps the last of it" json "$tmp/out" \
	'(len(d["stdout"]), d["stdout"][-4:], d["stdout_bytes"], d["stderr"]) == (10 << 20, "xend", 11000003, "e\n")'
check "and says so" test "$(cat "$tmp/err")" = "moat: stdout is cut: 10.0 MiB of 10.5 MiB are in the document"

background exec $id sh -c 'echo ready; exec sleep 102'
wait_for grep -q ready "$tmp/out"
check "a command runs" running 1 '[s]leep 102'
kill -TERM $pid
wait $pid
check "an interrupt ends exec with 130" test $? -eq 130
check "and the command" running 0 '[s]leep 102'

background exec $id sh -c 'echo ready; exec sleep 103'
wait_for grep -q ready "$tmp/out"
daemon=$(daemon_pid)
kill -STOP "$daemon"
kill -TERM $pid
sleep 0.2
check "a daemon that hangs keeps us waiting" kill -0 $pid
# A signal that comes while another one is still pending is lost.
(while kill -TERM $pid; do sleep 0.2; done) 2>/dev/null &
wait $pid
check "until the second interrupt" test $? -eq 130
kill -CONT "$daemon"
check "a client that left takes its command along" wait_for running 0 '[s]leep 103'

echo 'echo from-shell; exit 5' | moat shell $id >"$tmp/out"
check "shell reads commands from a pipe" test $? -eq 5
says "and runs them" out from-shell

if command -v script >/dev/null; then
	script -qec "stty rows 33 cols 77; $MOAT exec -it $id stty size; echo code=\$?; stty -a" /dev/null >"$tmp/tty" </dev/null
	check "the terminal's size arrives" grep -q "33 77" "$tmp/tty"
	check "the exit code comes back" grep -q "code=0" "$tmp/tty"
	check "and the terminal is sane again" grep -q " icanon" "$tmp/tty"
	script -qec "$MOAT exec -t $id printf '\033[31m'" /dev/null >"$tmp/tty" </dev/null
	check "with a terminal, control characters pass" grep -q "$esc\[31m" "$tmp/tty"
	script -qec "$MOAT exec $id printf '\033[31mh\303\251'" /dev/null >"$tmp/tty" </dev/null
	check "without, they are escaped and letters are not" grep -q "$(printf '\\\\x1b\\[31mh\303\251')" "$tmp/tty"
	script -qec "$MOAT exec --json $id printf 'h\303\251\302\23331m\177\342\200\256'" /dev/null >"$tmp/tty" </dev/null
	check "with --json as well" grep -qF "$(printf 'h\303\251')"'\u009b31m\u007f\u202e' "$tmp/tty"
	check "exec -it raw mode, resize and interrupt" python3 "$here/pty-session.py" "$MOAT" "$id"
fi
end_tests
