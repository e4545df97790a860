#!/bin/sh
# cp in both directions, and what a hostile guest may not do; against a fake daemon.
# shellcheck source=lib.sh disable=SC2016,SC2086,SC2119,SC3045
. "$(dirname "$0")/lib.sh"
start_fake
cd "$tmp" || exit 1
umask 022
root=$tmp/root

echo one >f
chmod 640 f
expect "a file in" 0 cp f $id:/a/b/f
check "with content" cmp f "$root/a/b/f"
check "and mode" test "$(stat -c %a "$root/a/b/f")" = 640
expect "into a directory" 0 cp f $id:/a/b/
mkdir "$root/dir"
expect "into an existing directory" 0 cp f $id:/dir
check "under its own name" cmp f "$root/dir/f"
expect "into the home directory" 0 cp f $id:
check "is fine" cmp f "$root/f"
expect "another machine" 0 cp f $id/router:/g
check "is asked" grep -q '"op": "write".*"vm": "router"\|"vm": "router".*"op": "write"' "$tmp/log"
expect "as a user" 0 cp -u kim f $id:/g
check "who arrives" grep -q '"user": "kim"' "$tmp/log"
printf streamed | moat cp - $id:/s
check "from standard input" test "$(cat "$root/s")" = streamed
printf streamed | moat cp - $id:/dir 2>"$tmp/err"
check "a stream needs a file's name" test $? -eq 1

echo two >"$root/two"
chmod 4755 "$root/two"
expect "a file out" 0 cp $id:/two got
check "with content" cmp got "$root/two"
check "and mode, but not setuid" test "$(stat -c %a got)" = 755
mkdir d
expect "into a local directory" 0 cp $id:/two d
check "under its own name" cmp d/two "$root/two"
expect "to standard output" 0 cp $id:/two -
check "as it is" cmp "$tmp/out" "$root/two"
: >"$root/empty"
expect "an empty file" 0 cp $id:/empty e
check "is empty" test -f e -a ! -s e
expect "a file that is not there" 3 cp $id:/nowhere x
check "leaves nothing" test ! -e x
expect "to /dev/full" 1 cp $id:/two /dev/full
check "which stays what it is" test -c /dev/full
expect "to /dev/null" 0 cp $id:/two /dev/null
check "which stays as well" test -c /dev/null
expect "to a place that is not there" 3 cp $id:/two no/such/dir

mkdir -p tree/sub/deep tree/closed
echo a >tree/a
echo b >tree/sub/deep/b
chmod 700 tree/sub
ln -s sub/deep tree/link
ln -s /etc/passwd tree/abs
mkfifo tree/fifo
chmod 555 tree/closed
expect "a tree in" 0 cp --json tree $id:/new
check "with a count" grep -q '"files":2,"directories":4,"links":2,"bytes":4,"failures":0' "$tmp/out"
check "became the name given" cmp tree/sub/deep/b "$root/new/sub/deep/b"
check "links are links" test "$(readlink "$root/new/link")" = sub/deep
says "fifos are left out and named" err "fifo.*left out"
expect "once more, and it goes inside" 0 cp tree $id:/new
check "under its own name" test -f "$root/new/tree/a"
expect "over itself" 0 cp tree/. $id:/new
ln -sfn elsewhere "$root/new/link"
expect "another link in the way" 1 cp tree/. $id:/new
says "is named" err "new/link: .*exists"
ln -sfn sub/deep "$root/new/link"
expect "what is in a tree" 0 cp tree/. $id:/flat
check "without its name" test -f "$root/flat/a"

expect "a tree out" 0 cp -r $id:/new back
check "is the same" diff -r --no-dereference --exclude=fifo --exclude=tree tree back
check "links are links here" test "$(readlink back/abs)" = /etc/passwd
check "modes are kept" test "$(stat -c %a back/sub)" = 700
expect "once more into it" 0 cp $id:/new/sub back
check "merges" cmp back/sub/deep/b tree/sub/deep/b
expect "what is in a tree, out" 0 cp $id:/new/. flat
check "without its name, too" test -f flat/a
expect "a directory to standard output" 1 cp $id:/new -

head -c 200000000 /dev/urandom >big
check "200 MB in, in little memory" in_little_memory "$MOAT" cp big $id:/big
check "and whole" cmp big "$root/big"
check "200 MB out, in little memory" in_little_memory "$MOAT" cp $id:/big big2
check "and whole, too" cmp big2 big

# The guest lists names that lead elsewhere, a link and then a directory of the same name, and more.
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
expect "a name with NUL" 1 cp evil:nul/ nuldst
check "leaves nothing" test ! -e nuldst
expect "a directory without end" 1 cp evil:deep/ deepdst
says "has an end" err "nested too deeply"

# A disk that is full; a link, a fifo or a directory that is here already.
mkdir away
ln -s away linkdst
expect "our own links are followed when we name them" 0 cp $id:/two linkdst
check "into their target" test -f away/two
mkdir -p there/sub
rm -rf there/sub && ln -s ../outside there/sub
expect "a link in the destination" 1 cp $id:/new/. there
check "is not followed" test "$(ls outside)" = file

expect "an id is not a path" 0 cp ./f $id:x:y
check "colons in paths are theirs" test -f "$root/x:y"
touch a:b
expect "a local name with a colon" 0 cp ./a:b $id:/colon
check "needs ./ in front" test -f "$root/colon"

background cp $id:/endless huge
wait_for test -s huge
kill -TERM $pid
wait $pid
check "an interrupted cp ends with 130" test $? -eq 130
check "and leaves no half of a file" test ! -e huge
end_tests
