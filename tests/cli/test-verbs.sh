#!/bin/sh
# The verbs that show and use a sandbox, on a real one; up and rm are in test-vm.sh.
# shellcheck source=lib.sh disable=SC2086,SC2119
. "$(dirname "$0")/lib.sh"
use_sandbox
cd "$tmp" || exit 1

# how it came up
check "up --json prints the result" json "$shared/up.out" "d['sandbox'] == '$id' and len(d['vms']) == 2"
check "an id is short and plain" expr "$id" : '[0-9a-z]\{6,\}$'
check "--quiet is quiet" test ! -s "$shared/up.err"
expect "ls --json" 0 ls --json $id
check "is the daemon's answer" json "$tmp/out" "d['sandboxes'][0]['id'] == '$id'"
check "a spec from standard input is followed" json "$tmp/out" \
	'[(v["name"], v["ram_mb"], v["vcpus"], v["image"]) for v in d["sandboxes"][0]["vms"]] == [("default", 192, 1, "tiny"), ("screen", 192, 1, "tiny")]'
check "labels arrive" json "$tmp/out" 'd["sandboxes"][0]["labels"] == {"a": "b=c", "name": "shared", "note": "\x1b[2Jhello"}'
check "the sandbox is detached" json "$tmp/out" 'd["sandboxes"][0]["detached"]'

# ls
expect "ls" 0 ls
says "shows the sandbox" out "^$id  shared  running  .* default,screen "
says "escapes labels" out 'note=\\x1b\[2Jhello'
check "has no column that would say nothing" sh -c "! grep -q DRIVER '$tmp/out'"
check "nor the name twice" sh -c "! grep -q 'name=shared' '$tmp/out'"
expect "ls --label" 0 ls --label a=b=c
says "shows what has the label" out "^$id "
expect "ls of a label that nothing has" 0 ls --label a=c
silent "shows nothing" out
says "and says so" err "no sandboxes with such labels"
expect "ls --json of that" 0 ls --json --label a=c
check "is an empty list" json "$tmp/out" 'd["sandboxes"] == []'
expect "ls --format" 0 ls --format '{id}\t{name} {state} {label.a}|{label.x}|{vms}'
check "fills the fields in" test "$(cat "$tmp/out")" = "$(printf '%s\tshared running b=c||default,screen' $id)"
expect "ls --format with a label of a hostile eval" 0 ls --format '{label.note}'
check "escapes it" test "$(cat "$tmp/out")" = '\x1b[2Jhello'
expect "ls --format with no such field" 2 ls --format '{ID}'
says "says which there are" err "no field {ID}; there are id, name,"
expect "ls --format with half a field" 2 ls --format '{id'
expect "a name stands where an id does" 0 exec shared true
expect "also for ls" 0 ls --json shared
check "which tells it" json "$tmp/out" 'd["sandboxes"][0]["name"] == "shared"'
expect "a name that is in use" 1 up -n shared tiny
says "says by what" err "sandbox $id is called shared already"
expect "a name that cannot be" 1 up -n 2nd tiny
says "says why" err "does not begin with a letter"
expect "ls -q" 0 ls -q
check "is ids only" test "$(cat "$tmp/out")" = "$id"
expect "ls of one" 0 ls "$(printf %.4s $id)"
says "shows its machines" out "^default  running  tiny"
says "all of them" out "^screen  *running  tiny"
expect "ls of none" 3 ls zzzz
expect "ls of none, as JSON" 3 ls --json zzzz
check "is an error document" json "$tmp/out" "d['error']['kind'] == 'not_found'"
expect "a part of an id that is too short" 3 ls "$(printf %.3s $id)"

# logs
expect "the console is written to" 0 exec -u root $id sh -c 'printf "boot\033[2J\nready\n" >/dev/ttyS0'
check "logs show it" wait_for sh -c "'$MOAT' logs $id | grep -q ready"
expect "logs" 0 logs $id
check "are bytes as they are when not on a terminal" grep -q "boot$esc" "$tmp/out"
expect "logs --json" 0 logs --json $id
check "is a document" json "$tmp/out" '"boot\x1b[2J" in d["log"]'
expect "logs --qemu" 0 logs --json --qemu $id
check "is another log" json "$tmp/out" '"boot" not in d["log"]'
expect "logs of another machine" 0 logs --vm screen $id
check "are its own" sh -c "! grep -q 'boot$esc' '$tmp/out'"
expect "logs of no machine" 3 logs --vm nobody $id
background logs -f $id
wait_for grep -q ready "$tmp/out"
guest true
moat exec -u root $id sh -c 'echo and-more >/dev/ttyS0' </dev/null
check "logs -f goes on" wait_for grep -q and-more "$tmp/out"
kill -TERM $pid
wait $pid
check "logs -f ends by an interrupt" test $? -eq 130

# screenshot
expect "screenshot" 0 screenshot --vm screen $id shot.png
check "prints the file's name" test "$(cat "$tmp/out")" = shot.png
check "is a picture" python3 -c '
import struct, sys
data = open("shot.png", "rb").read()
assert data[:8] == b"\x89PNG\r\n\x1a\n" and data[-8:-4] == b"IEND" and struct.unpack(">II", data[16:24]) >= (640, 350)'
expect "screenshot without a name" 0 screenshot --vm screen $id
check "is named after the sandbox" test -s "moat-$id.png"
expect "screenshot to standard output" 0 screenshot --vm screen $id -
check "is a picture, too" grep -q PNG "$tmp/out"
expect "a machine without display" 1 screenshot $id none.png
says "says what to do" err "vga: std"
check "leaves no file" test ! -e none.png

expect "--check of more memory than the host has" 1 up --check --ram 4T tiny
says "says so before anything is made" err "not enough memory: .* needs 4194.* the host has"
expect "--check of more processors than a VM can have" 1 up --check --vcpus 256 tiny
says "says where that is" err "vcpus: at most 255"

# ssh
expect "ssh-config" 0 ssh-config shared
says "names the hosts" out "^Host moat-shared moat-shared-default moat-$id moat-$id-default\$"
says "and the other machine" out "^Host moat-shared-screen moat-$id-screen\$"
says "and who logs in" out "^  User user\$"
check "makes a key that nobody else can read" test "$(stat -c %a "$MOAT_HOME/state/ssh/id")" = 600
cp "$tmp/out" "$tmp/config"
expect "ssh-config again" 0 ssh-config
check "takes the same key" cmp "$tmp/out" "$tmp/config"
expect "ssh-proxy into a machine without sshd" 1 ssh-proxy shared
says "says what it has instead" err "no sshd; moat shell"
expect "ssh-config of none" 3 ssh-config zzzz

# what else there is to say
expect "detach of what is detached" 0 detach $id
expect "detach of none" 3 detach zzzz
expect "restore of what was never saved" 3 restore $id clean
says "says so" err "has no snapshot clean"
expect "a snapshot" 0 snapshot $id clean
expect "is listed" 0 snapshots $id
says "by its name" out "^clean "
expect "its counterpart" 0 restore $id clean
expect "a snapshot can be forgotten" 0 snapshot --remove $id clean
expect "restore after that, as JSON" 3 restore --json $id clean
check "is an error document, too" json "$tmp/out" "d['error']['kind'] == 'not_found'"
expect "snapshot of none" 3 snapshot zzzz clean
expect "doctor of one driver" 0 doctor qemu
says "shows its checks" out "^ok  *qemu  *qemu-img"
says "and the directories in force" out "^  state  *$shared/h/state"
expect "doctor of no driver" 1 doctor floppy
says "names it" err floppy
expect "info" 0 info
says "shows the daemon" out "^Daemon: moat [0-9.]*, pid [0-9]"
says "and what it has" out "^  sandboxes  *1"
expect "image rm while in use" 1 image rm tiny
says "says why not" err "in use"
expect "stop of a busy daemon" 1 serve --stop
says "says why not, too" err "1 sandbox is there"
expect "up --check of an image" 0 up --check tiny
printf 'vms:\n  - source: tiny\n' >lab.yaml
expect "up --check of a spec" 0 up --check --json lab.yaml
check "fills the defaults in" json "$tmp/out" 'd["spec"]["vms"][0]["name"] == "default" and d["spec"]["vms"][0]["ram_mb"] == 2048'
expect "--ram and a spec exclude each other" 2 up --ram 5 lab.yaml
printf 'bogus: 1\n' >bogus.yaml
expect "up --check of a wrong spec" 1 up --check bogus.yaml
says "repeats the place" err "bogus"
printf 'vms:\n  - source: tiny\n    ram: 5\n' >bad.yaml
expect "up of a wrong spec" 1 up bad.yaml
says "repeats the place, too" err "vms\[0\]"
expect "up of a missing image" 3 up missing
says "says where to look" err 'no image "missing".*moat image ls'

# terminals: script(1) gives us one
if command -v script >/dev/null; then
	NO_COLOR='' script -qec "stty cols 60; $MOAT ls" /dev/null >"$tmp/tty" </dev/null
	check "tables fit the terminal" python3 -c '
import re, sys
text = re.sub("\x1b\\[[0-9]*m", "", open(sys.argv[1]).read())
assert sys.argv[2] in text and max(len(line) for line in text.splitlines()) <= 60, text' "$tmp/tty" $id
	check "and have colours" grep -qF "${esc}[32m$id" "$tmp/tty"
	script -qec "$MOAT ls" /dev/null >"$tmp/tty" </dev/null
	check "not with NO_COLOR" sh -c "grep -q $id '$tmp/tty' && ! grep -q '$esc' '$tmp/tty'"
	# The log began anew when the sandbox went back to its snapshot.
	expect "the console is written to again" 0 exec -u root $id sh -c 'printf "boot\033[2J\nready\n" >/dev/ttyS0'
	wait_for sh -c "'$MOAT' logs $id | grep -q ready"
	script -qec "$MOAT logs $id" /dev/null >"$tmp/tty" </dev/null
	check "on a terminal, logs are escaped" grep -q 'boot\\x1b\[2J' "$tmp/tty"
	script -qec "$MOAT screenshot --vm screen $id -" /dev/null >"$tmp/tty" </dev/null
	check "and pictures do not belong there" grep -q "name a file" "$tmp/tty"
fi
end_tests
