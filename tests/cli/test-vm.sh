#!/bin/sh
# The verbs on a real VM of the tiny image. The image is taken from MOAT_DATA_DIR, or built, which needs a network.
# shellcheck source=lib.sh disable=SC2016,SC2119
. "$(dirname "$0")/lib.sh"
cd "$tmp" || exit 1
umask 022
if ! moat doctor qemu >/dev/null 2>&1 || ! moat image build tiny >/dev/null 2>"$tmp/err"; then
	echo "1..0 # SKIP no QEMU or no tiny image: $(tail -n 1 "$tmp/err")"
	exit 77
fi

expect "up" 0 up --ram 256 --vcpus 1 --label test=vm tiny
id=$(cat "$tmp/out")
check "prints an id" expr "$id" : '[0-9a-z]\{6,\}$'
expect "ls" 0 ls
says "shows it" out "^$id  running  qemu .*test=vm"
expect "ls of one" 0 ls "$id"
says "shows its machine" out "^default  running  tiny"
short=$(printf %.4s "$id")

expect "exec" 42 exec "$short" sh -c 'echo out; echo err >&2; exit 42'
check "stdout" test "$(cat "$tmp/out")" = out
check "stderr" test "$(cat "$tmp/err")" = err
expect "as root, elsewhere, with a variable" 0 exec -u root -w /etc -e 'A=b c' "$id" sh -c 'id -un; pwd; echo "$A"'
check "says so" test "$(tr '\n' ' ' <"$tmp/out")" = "root /etc b c "
expect "no such command" 127 exec "$id" no-such-command
says "is explained" err no-such-command
expect "no such user" 126 exec -u nobody-at-all "$id" true
expect "a timeout" 124 exec --timeout 0.5 "$id" sh -c 'sleep 100 & sleep 100'
expect "kills the whole tree" 1 exec -u root "$id" sh -c 'ps | grep "[s]leep 100"'
expect "no such sandbox" 125 exec zzzzzz true
head -c 3000000 /dev/urandom >blob
moat exec -i "$id" cat <blob >blob2
check "3 MB through a command" cmp blob blob2
background exec "$id" sh -c 'echo ready; exec sleep 77'
wait_for grep -q ready "$tmp/out"
kill -TERM "$pid"
wait "$pid"
check "an interrupt is 130" test $? -eq 130
expect "and the command is gone" 1 exec -u root "$id" sh -c 'ps | grep "[s]leep 77"'
check "a person at a terminal" python3 "$here/pty-session.py" "$MOAT" "$id"
echo 'echo "$0 $-" | cut -c 1; exit 9' | moat shell "$id" >"$tmp/out"
check "shell with a script" test $? -eq 9

expect "cp in" 0 cp blob "$id":dir/blob
expect "cp out" 0 cp "$id":dir/blob back
check "the same bytes" cmp blob back
expect "into a directory" 0 cp blob "$id":dir
expect "to standard output" 0 cp "$id":dir/blob -
check "the same bytes again" cmp blob "$tmp/out"
mkdir -p tree/sub tree/empty
echo x >tree/sub/x
chmod 750 tree/sub/x
ln -s sub/x tree/link
: >tree/zero
i=0
while [ $i -lt 50 ]; do
	i=$((i + 1))
	echo $i >tree/sub/$i
done
expect "a tree in" 0 cp tree "$id":/tmp/tree
expect "and out" 0 cp "$id":/tmp/tree tree2
check "the same tree" diff -r --no-dereference tree tree2
check "modes are kept" test "$(stat -c %a tree2/sub/x)" = 750
expect "in once more, beside itself" 0 cp tree "$id":/tmp/tree
expect "is in it" 0 exec "$id" test -f /tmp/tree/tree/sub/x
expect "over itself" 0 cp tree/. "$id":/tmp/tree
expect "a file that is not there" 3 cp "$id":/nowhere x
check "leaves nothing" test ! -e x
expect "a place that is forbidden" 1 cp blob "$id":/root/x
expect "which root may" 0 cp -u root blob "$id":/root/x
expect "a directory as a file" 1 cp "$id":/tmp -
head -c 100000000 /dev/zero >big
check "100 MB in, in little memory" in_little_memory "$MOAT" cp big "$id":/tmp/big
check "100 MB out, in little memory" in_little_memory "$MOAT" cp "$id":/tmp/big big2
check "all of it" cmp big big2

expect "the console is written to" 0 exec -u root "$id" sh -c 'echo from-the-guest >/dev/ttyS0'
check "logs show it" wait_for sh -c "'$MOAT' logs '$id' | grep -q from-the-guest"
expect "QEMU's log" 0 logs --qemu "$id"
expect "detach" 0 detach "$id"
expect "image rm while in use" 1 image rm tiny
expect "stop of a busy daemon" 1 serve --stop

background up --attach --ram 256 tiny
wait_for test -s "$tmp/out"
attached=$(cat "$tmp/out")
expect "a second sandbox" 0 ls "$attached"
kill -9 "$pid"
wait "$pid" 2>/dev/null
check "goes with its owner" wait_for sh -c "! '$MOAT' ls -q | grep -q '$attached'"
background up --ram 256 tiny
wait_for grep -q default "$tmp/err"
kill -TERM "$pid"
wait "$pid"
check "an interrupted up is 130" test $? -eq 130
check "and leaves nothing" test "$(moat ls -q)" = "$id"
expect "up --check" 0 up --check tiny
printf 'vms:\n  - source: tiny\n    ram: 5\n' >bad.yaml
expect "up --check of a wrong spec" 1 up --check bad.yaml
says "names the place" err "vms\[0\]"
expect "up of an image that is not there" 3 up no-such-image

expect "rm" 0 rm "$id"
check "prints the id" test "$(cat "$tmp/out")" = "$id"
expect "once is enough" 3 rm "$id"
expect "gc" 0 gc
expect "stop" 0 serve --stop
check "no process is left" sh -c "! pgrep -f '$tmp/[h]'"
end_tests
