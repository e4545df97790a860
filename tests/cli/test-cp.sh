#!/bin/sh
# cp in both directions, to and from a real VM. What only a hostile guest sends is in test-rogue.sh.
# shellcheck source=lib.sh disable=SC2086,SC2119,SC2317
. "$(dirname "$0")/lib.sh"
use_sandbox
cd "$tmp" || exit 1
umask 022
at=/tmp/cp # here are our files in the guest
guest sh -c "umask 022; mkdir $at $at/dir; echo two >$at/two; chmod 4755 $at/two; : >$at/empty"

holds() { # FILE PATH: the guest's PATH has the same bytes as our FILE
	test "$(sha256sum <"$1")" = "$(guest sh -c "sha256sum <'$2'")"
}
mode() { # PATH: in the guest
	guest stat -c %a "$1"
}

echo one >f
chmod 640 f
expect "a file in" 0 cp f $id:$at/a/b/f
check "with content" holds f $at/a/b/f
check "and mode" test "$(mode $at/a/b/f)" = 640
expect "into a directory" 0 cp f $id:$at/a/c/
check "that is made" holds f $at/a/c/f
expect "into an existing directory" 0 cp f $id:$at/dir
check "under its own name" holds f $at/dir/f
expect "into the home directory" 0 cp f $id:
check "is fine" holds f /home/user/f
expect "beside it" 0 cp f $id:way/to/f
check "relative to it" holds f /home/user/way/to/f
expect "another machine" 0 cp f $id/screen:/tmp/g
check "has it" test "$(moat exec --vm screen $id cat /tmp/g)" = one
expect "and the first has not" 3 cp $id:/tmp/g x
expect "back from it" 0 cp $id/screen:/tmp/g g
check "with content, too" cmp f g
expect "a place that is forbidden" 1 cp f $id:/root/f
says "is named" err "/root/f: Permission denied"
expect "as another user" 0 cp -u root f $id:/root/f
check "whose file it is" test "$(moat exec -u root $id stat -c '%U %a' /root/f)" = "root 640"
printf streamed | moat cp - $id:$at/s
check "from standard input" test "$(guest cat $at/s)" = streamed
printf streamed | moat cp - $id:$at/dir 2>"$tmp/err"
check "a stream needs a file's name" test $? -eq 1

echo two >two
expect "a file out" 0 cp $id:$at/two got
check "with content" cmp got two
check "and mode, but not setuid" test "$(stat -c %a got)" = 755
mkdir d
expect "into a local directory" 0 cp $id:$at/two d
check "under its own name" cmp d/two two
expect "to standard output" 0 cp $id:$at/two -
check "as it is" cmp "$tmp/out" two
guest sh -c "printf 'h\303\251\033[31m\303' >$at/colours"
script -qec "$MOAT cp $id:$at/colours -" /dev/null >"$tmp/tty" </dev/null
check "what the guest would tell a terminal is shown instead" grep -qF 'hé\x1b[31m\xc3' "$tmp/tty"
expect "but not to a file" 0 cp $id:$at/colours -
check "which gets it as it is" test "$(wc -c <"$tmp/out")" = 9
expect "an empty file" 0 cp $id:$at/empty e
check "is empty" test -f e -a ! -s e
expect "a file that is not there" 3 cp $id:/nowhere x
check "leaves nothing" test ! -e x
expect "a file of somebody else" 1 cp $id:/etc/shadow x
check "leaves nothing either" test ! -e x
expect "to /dev/full" 1 cp $id:$at/two /dev/full
check "which stays what it is" test -c /dev/full
expect "to /dev/null" 0 cp $id:$at/two /dev/null
check "which stays as well" test -c /dev/null
expect "to a place that is not there" 3 cp $id:$at/two no/such/dir

mkdir -p tree/sub/deep tree/closed tree/many
echo a >tree/a
echo b >tree/sub/deep/b
: >tree/zero
chmod 700 tree/sub
chmod 750 tree/a
ln -s sub/deep tree/link
ln -s /etc/passwd tree/abs
mkfifo tree/fifo
chmod 555 tree/closed
for i in 1 2 3 4 5 6 7 8 9; do echo $i >tree/many/$i; done
expect "a tree in" 1 cp --json tree $id:$at/new
check "with a count" grep -q '"files":12,"directories":5,"links":2,"bytes":22,"failures":1' "$tmp/out"
check "became the name given" holds tree/sub/deep/b $at/new/sub/deep/b
check "links are links" test "$(guest readlink $at/new/link)" = sub/deep
check "modes arrive" test "$(mode $at/new/sub)" = 700
says "fifos are left out and named" err "new/fifo: .*left out"
expect "even with --quiet" 1 cp --quiet tree/. $id:$at/new
says "which is for notes" err "new/fifo: .*left out"
rm tree/fifo
expect "once more, and it goes inside" 0 cp tree $id:$at/new
check "under its own name" holds tree/a $at/new/tree/a
expect "over itself" 0 cp tree/. $id:$at/new
guest ln -sfn elsewhere $at/new/link
expect "another link in the way" 1 cp tree/. $id:$at/new
says "is named" err "new/link: .*exists"
guest ln -sfn sub/deep $at/new/link
expect "what is in a tree" 0 cp tree/. $id:$at/flat
check "without its name" holds tree/a $at/flat/a

guest mkfifo $at/new/pipe
expect "a tree out" 1 cp -r --json $id:$at/new back
check "with a count, too" grep -q '"failures":1' "$tmp/out"
says "fifos are left out there, too" err "new/pipe: .*left out"
guest rm $at/new/pipe
check "is the same" diff -r --no-dereference --exclude=tree tree back
check "links are links here" test "$(readlink back/abs)" = /etc/passwd
check "modes of directories are kept" test "$(stat -c %a back/sub)" = 700
check "and of files" test "$(stat -c %a back/a)" = 750
expect "once more into it" 0 cp $id:$at/new/sub back
check "merges" cmp back/sub/deep/b tree/sub/deep/b
expect "what is in a tree, out" 0 cp $id:$at/new/. flat
check "without its name, too" test -f flat/a
expect "a directory to standard output" 1 cp $id:$at/new -

head -c 60000000 /dev/urandom >big
check "60 MB in, in little memory" in_little_memory "$MOAT" cp big $id:$at/big
check "60 MB out, in little memory" in_little_memory "$MOAT" cp $id:$at/big big2
check "and whole" cmp big2 big
expect "more than there is room for" 1 cp big $id:$at/big3
says "says so" err "No space left"
guest rm -f $at/big $at/big3

# A link, a fifo or a directory that is here already.
mkdir away outside
echo mine >outside/file
ln -s away linkdst
expect "our own links are followed when we name them" 0 cp $id:$at/two linkdst
check "into their target" test -f away/two
mkdir there && ln -s ../outside there/sub
expect "a link in the destination" 1 cp $id:$at/new/. there
check "is not followed" test "$(ls outside)" = file
ln -s ../outside/file there/two && ln -s ../outside there/new
expect "nor one with the name of a file that goes there" 1 cp $id:$at/two there
says "which is said" err "there/two is a link here: not followed"
expect "or of a directory" 1 cp $id:$at/new there/
says "which is said" err "there/new is a link here: not followed"
check "nothing came of it" test "$(ls outside) $(cat outside/file)" = "file mine"

expect "an id is not a path" 0 cp ./f $id:x:y
check "colons in paths are theirs" holds f /home/user/x:y
touch a:b
expect "a local name with a colon" 0 cp ./a:b $id:$at/colon
check "needs ./ in front" holds a:b $at/colon

background cp $id:/dev/zero huge
wait_for test -s huge
kill -TERM $pid
wait $pid
check "an interrupted cp ends with 130" test $? -eq 130
check "and leaves no half of a file" test ! -e huge
has_read() { # PID: its own signal handlers are in place by then
	test "$(sed -n 's/^rchar: //p' "/proc/$1/io")" -gt 1000000
}
background cp /dev/zero $id:/dev/null
wait_for has_read $pid
kill -TERM $pid
wait $pid
check "into the guest as well" test $? -eq 130
guest rm -rf $at
end_tests
