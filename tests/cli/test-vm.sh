#!/bin/sh
# The lives of sandboxes: made, waiting, interrupted, owned, removed, left behind by a daemon that crashed. The shared
# sandbox ends here.
# shellcheck source=lib.sh disable=SC2016,SC2086,SC2119,SC2317
. "$(dirname "$0")/lib.sh"
use_sandbox
cd "$tmp" || exit 1

# A spec that starts slowly, as it boots.
echo '{"vms": [{"source": "tiny", "ram_mb": 192, "vcpus": 1, "warm": false}]}' >cold.json

begin_up() { # ARGUMENT...: `up` in the background, until its VM runs; the sandbox is in $new
	background up "$@" cold.json
	wait_for grep -q "waiting for default" "$tmp/err"
	new=$(moat ls -q | grep -v "^$id$")
}
has_processes() { # SANDBOX: QEMU and its guard name it on their command lines
	pgrep -f "name [m]oat-$1/"
}
lacks_processes() { # SANDBOX
	! has_processes "$1"
}
gone() { # SANDBOX
	moat ls -q >ids && ! grep -qx "$1" ids
}
nobody_is_called() { # NAME
	moat ls -a --format '{name}' >names && ! grep -qx "$1" names
}

check "the shared sandbox has processes" has_processes $id

# More than the host can give at the moment, and less than it has.
much=$(moat info --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["memory"]["total_mb"] - 800)')
printf 'vms:\n  - {source: tiny, ram_mb: %d}\n' $much >lab.yaml
expect "up --no-wait" 1 up --no-wait --ram $much tiny
says "does not wait for memory" err "not enough memory"
expect "up --timeout" 1 up --timeout 0.5 --ram $much tiny
says "waits so long" err "not up after 0.5 s (--timeout): .*timed out"
background up lab.yaml
wait_for grep -q "waiting for" "$tmp/err"
kill -TERM $pid
wait $pid
check "up that is interrupted while it waits is 130" test $? -eq 130
silent "prints no id" out

begin_up -l x=1
check "a sandbox that is being made is there" moat ls "$new"
kill -TERM $pid
wait $pid
check "up that is interrupted while it boots is 130" test $? -eq 130
silent "prints no id, either" out
check "and leaves nothing" gone "$new"
check "nor a process" lacks_processes "$new"

begin_up
kill -9 $pid
wait $pid 2>/dev/null
check "a sandbox goes with its owner" wait_for gone "$new"
check "and so does its machine" lacks_processes "$new"

begin_up -l x=1 -l y=2
expect "rm by a label that it has not" 0 rm -l x=1 -l y=3
silent "removes nothing" out
says "and says so" err "nothing to remove"
expect "rm by labels" 0 rm -l x=1 -l y=2
check "prints the id" test "$(cat "$tmp/out")" = "$new"
wait $pid
check "who made it learns that" test $? -ne 0
check "nothing but the shared one is left" test "$(moat ls -q)" = "$id"

background up --attach --build --ram 192 --vcpus 1 -l b=c=d -n kim --timeout 500 tiny
wait_for grep -q "Ctrl-C" "$tmp/err"
new=$(cat "$tmp/out")
check "up --attach prints the id alone" expr "$new" : '[0-9a-z]\{6,\}$'
check "progress is on stderr" grep -q "^starting default" "$tmp/err"
moat ls --json "$new" >"$tmp/ls"
check "the machine is as was asked for" json "$tmp/ls" \
	'[(v["name"], v["ram_mb"], v["vcpus"], v["image"]) for v in d["sandboxes"][0]["vms"]] == [("default", 192, 1, "tiny")]'
check "and labelled" json "$tmp/ls" 'd["sandboxes"][0]["labels"] == {"b": "c=d", "name": "kim"}'
check "and owned" json "$tmp/ls" "d['sandboxes'][0]['owner_pid'] == $pid and not d['sandboxes'][0]['detached']"
check "it answers" moat exec "$new" true
expect "stop of a busy daemon" 1 serve --stop
says "counts" err "2 sandboxes are there"
kill -TERM $pid
wait $pid
check "up --attach ends well" test $? -eq 0
check "and removes the sandbox" gone "$new"

expect "run" 7 run --ram 192 --vcpus 1 -n brief tiny -- sh -c 'id -un; exit 7'
check "has the command's output" test "$(cat "$tmp/out")" = user
check "and removes the sandbox" nobody_is_called brief
expect "run as with exec" 0 run --ram 0.2G --vcpus 1 -u root -w /tmp -e A=b tiny sh -c 'echo $(id -un) $PWD $A'
check "has its options" test "$(cat "$tmp/out")" = "root /tmp b"
expect "run of what is not there" 127 run --ram 192 --vcpus 1 tiny /no/such
expect "run of no image" 125 run missing true
says "says so" err 'no image "missing"'
background run --ram 192 --vcpus 1 -n brief tiny sh -c 'echo here; exec sleep 1000'
wait_for grep -q here "$tmp/out"
kill -TERM $pid
wait $pid
check "an interrupted run is 130" test $? -eq 130
check "and leaves nothing" wait_for nobody_is_called brief

expect "rm of none" 3 rm zzzz
expect "rm of one, and of none" 3 rm $id zzzz
check "removes neither" test "$(moat ls -q)" = "$id"
expect "rm of one that is named twice" 0 rm "$(printf %.4s $id)" $id
check "prints once what was removed" test "$(cat "$tmp/out")" = "$id"
expect "once is enough" 3 rm $id
expect "rm --all of nothing" 0 rm --all
says "is fine" err "nothing to remove"
expect "gc of nothing" 0 gc
says "is fine, too" err "nothing was left over"
expect "stop of an idle daemon" 0 serve --stop
check "no process is left" lacks_processes $id

# A daemon that crashes. Nothing else uses this home.
MOAT_HOME=$tmp/h
id=none
begin_up
crashed=$new
check "a machine runs" has_processes "$crashed"
kill -9 "$(daemon_pid)"
wait $pid
check "up that loses its daemon is 4" test $? -eq 4
expect "gc after a crash" 0 gc
says "says what it removed" out "^removed .*$crashed"
check "no machine is left" lacks_processes "$crashed"
begin_up
expect "rm --all" 0 rm --all
check "prints what there was" test "$(cat "$tmp/out")" = "$new"
wait $pid
begin_up
expect "stop by force" 0 serve --stop --force
wait $pid
check "ends what was under way" test $? -ne 0
check "no process of it is left" lacks_processes "$new"
expect "info without a daemon" 4 info
expect "stop without a daemon" 0 serve --stop
end_tests
