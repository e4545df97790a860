#!/bin/sh
# The verbs as clients of the protocol, against a fake daemon.
# shellcheck source=lib.sh disable=SC2016,SC2086,SC2119,SC3045
. "$(dirname "$0")/lib.sh"
start_fake

json() { # FILE EXPRESSION: true of the document d
	python3 -c 'import json,sys; d = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' "$1" "$2"
}
asked() { # OP EXPRESSION: the last request for OP had arguments a for which it is true
	python3 - "$tmp/log" "$1" "$2" <<'PY'
import json, sys
path, op, expression = sys.argv[1:]
calls = [json.loads(line[3:]) for line in open(path) if line.startswith("op ")]
last = [c for c in calls if c["op"] == op][-1]
a, timeout = last["args"], last["timeout"]
sys.exit(not eval(expression))
PY
}

# up
expect "up of an image" 0 up --ram 512 --vcpus 2 -l a=b=c -n kim --timeout 9 tiny
check "prints the id alone" test "$(cat "$tmp/out")" = "$id"
says "progress is on stderr" err "^booting"
check "the spec is one VM" asked up 'a["spec"] == {"vms": [{"name": "default", "source": {"image": "tiny"}, "ram_mb": 512, "vcpus": 2}]}'
check "labels and timeout arrive" asked up 'a["labels"] == {"a": "b=c", "name": "kim"} and timeout == 9'
check "the sandbox is detached" grep -q '"op": "detach"' "$tmp/log"
check "and not lost" sh -c "! grep -q lease-lost '$tmp/log'"
expect "up --json" 0 up --json --quiet tiny
check "prints the result" json "$tmp/out" "d['sandbox'] == '$id'"
silent "--quiet is quiet" err
printf 'vms:\n  - source: tiny\n' >"$tmp/lab.yaml"
expect "up of a spec" 0 up "$tmp/lab.yaml"
check "sends it as JSON" asked up 'a["spec"] == {"vms": [{"source": "tiny"}]}'
moat up - <"$tmp/lab.yaml" >"$tmp/out" 2>/dev/null
check "up of standard input" test "$(cat "$tmp/out")" = "$id"
expect "--ram and a spec exclude each other" 2 up --ram 5 "$tmp/lab.yaml"
expect "up --check" 0 up --check "$tmp/lab.yaml"
printf 'bogus: 1\n' >"$tmp/bogus.yaml"
expect "up --check of a wrong spec" 1 up --check "$tmp/bogus.yaml"
says "repeats the place" err "bogus: no such member"
expect "up of a missing image" 3 up missing
says "says how to build it" err "moat image build missing"
expect "up --build" 0 up --build --image new
check "builds it first" asked image.build 'a == {"image": "new"}'
expect "no-wait" 0 up --no-wait tiny
check "arrives" asked up 'a["wait"] is False'

background up slow
wait_for grep -q booting "$tmp/err"
kill -TERM $pid
wait $pid
check "an interrupted up ends with 130" test $? -eq 130
check "was cancelled" grep -q "^cancelled" "$tmp/log"
silent "prints no id" out
check "escapes what the daemon says" grep -q 'booting \\x1b' "$tmp/err"

background up --attach tiny
wait_for grep -q "Ctrl-C" "$tmp/err"
kill -TERM $pid
wait $pid
check "up --attach ends well" test $? -eq 0
check "and removes the sandbox" asked rm "a == {'sandboxes': ['$id']}"

# ls, rm and the others
expect "ls" 0 ls
says "shows the sandbox" out "^$id  running"
says "escapes labels" out 'note=\\x1b\[2Jhello'
expect "ls --json" 0 ls --json
check "is the daemon's answer" json "$tmp/out" "d['sandboxes'][0]['id'] == '$id'"
expect "ls -q" 0 ls -q
check "is ids only" test "$(cat "$tmp/out")" = "$id"
expect "ls of one" 0 ls $id
says "shows its machines" out "^default  running  tiny"
expect "ls of none" 3 ls zzzz
expect "ls of none, as JSON" 3 ls --json zzzz
check "is an error document" json "$tmp/out" "d['error']['kind'] == 'not_found'"
expect "rm" 0 rm $id
check "prints what was removed" test "$(cat "$tmp/out")" = "$id"
expect "rm --all" 0 rm --all
check "asks for all" asked rm 'a == {"all": True}'
expect "rm --label" 0 rm -l x=1 -l y=2
check "asks by label" asked rm 'a == {"labels": {"x": "1", "y": "2"}}'
expect "rm of none" 3 rm zzzz
expect "detach" 0 detach $id
expect "an unsupported operation" 1 snapshot $id clean
says "says so" err "no snapshots yet"
expect "logs" 0 logs $id
check "are bytes as they are when not on a terminal" grep -q "$(printf 'boot\033')" "$tmp/out"
expect "logs --json" 0 logs --json --qemu $id
check "is a document" json "$tmp/out" 'd["log"] == "boot\x1b[2J\nready\n"'
check "asks for QEMU's" asked logs 'a["kind"] == "qemu"'
background logs -f $id
wait_for grep -q ready "$tmp/out"
kill -TERM $pid
wait $pid
check "logs -f ends by an interrupt" test $? -eq 130
expect "screenshot" 0 screenshot $id "$tmp/shot.png"
check "is a file" grep -q "PNG" "$tmp/shot.png"
expect "gc" 0 gc
says "says what it removed" out "removed the overlay x"
expect "doctor finds something missing" 1 doctor
says "names it" out "^missing  vagrant"
says "and the fix" out "apt install vagrant"
says "and the directories in force" out "state  *"
expect "doctor of one driver" 0 doctor qemu
expect "info" 0 info
says "shows the daemon" out "^Daemon: moat 9.9"
expect "image ls" 0 image ls
says "shows sizes" out "5.0 MiB"
expect "image inspect" 0 image inspect tiny
expect "image import" 0 image import --firmware uefi "$tmp/shot.png"
check "sends an absolute path and a name" asked image.import "a == {'path': '$tmp/shot.png', 'name': 'shot', 'firmware': 'uefi'}"
expect "image import of nothing" 3 image import "$tmp/nothing"
expect "image rm" 0 image rm tiny
says "tells the gain" err "1.0 MiB"
expect "stop of a busy daemon" 1 serve --stop
says "says why not" err "1 sandbox is running"

# terminals: script(1) gives us one
if command -v script >/dev/null; then
	NO_COLOR='' script -qec "stty cols 50; $MOAT ls" /dev/null >"$tmp/tty" </dev/null
	check "tables fit the terminal" python3 -c '
import re, sys
text = re.sub("\x1b\\[[0-9]*m", "", open(sys.argv[1]).read())
assert "abcd1234" in text and max(len(line) for line in text.splitlines()) <= 50, text' "$tmp/tty"
	check "and have colours" grep -qF "$(printf '\033[32mabcd')" "$tmp/tty"
	script -qec "$MOAT ls" /dev/null >"$tmp/tty" </dev/null
	check "not with NO_COLOR" sh -c "! grep -q '$(printf '\033')' '$tmp/tty'"
	script -qec "$MOAT logs $id" /dev/null >"$tmp/tty" </dev/null
	check "on a terminal, logs are escaped" grep -q 'boot\\x1b\[2J' "$tmp/tty"
fi

expect "stop by force" 0 serve --stop --force
wait "$fake_pid"
fake_pid=
rm -f "$MOAT_HOME/run/moat.sock"
expect "info without a daemon" 4 info
expect "stop without a daemon" 0 serve --stop

# another version in our way
start_fake --protocol 7
expect "a daemon that speaks another protocol" 4 ls
says "names its pid" err "pid $fake_pid"
says "says what to do" err "moat serve --stop"
expect "it can be stopped all the same" 0 serve --stop --force
wait "$fake_pid"
rm -f "$MOAT_HOME/run/moat.sock"

# one that has too many clients, or is just leaving
start_fake --refuse 3
expect "a daemon that hangs up before its hello is asked again" 0 ls -q
check "and answers" test "$(cat "$tmp/out")" = "$id"
end_tests
