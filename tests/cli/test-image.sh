#!/bin/sh
# The image verbs, with a store of their own: a disk that is imported, an image that a recipe makes. No VM.
# shellcheck source=lib.sh disable=SC2119
. "$(dirname "$0")/lib.sh"
unset MOAT_DATA_DIR
cd "$tmp" || exit 1
if ! command -v qemu-img >/dev/null; then
	echo "1..0 # SKIP no qemu-img"
	exit 77
fi

expect "no images at first" 0 image ls
says "and that is said" err "no images"
expect "none, as JSON" 0 image ls --json
check "is an empty list" grep -qx '{"images":\[\],"damaged":\[\]}' "$tmp/out"

qemu-img create -q -f qcow2 shot.qcow2 10M
expect "image import" 0 image import --firmware uefi --user kim shot.qcow2
check "names it after the file" test "$(cat "$tmp/out")" = shot
expect "image ls" 0 image ls
says "shows name, digest and size" out "^shot  [0-9a-f]\{12\}  [0-9.]* KiB "
expect "image ls --names" 0 image ls --names
check "is names only" test "$(cat "$tmp/out")" = shot
expect "image inspect" 0 image inspect --json shot
check "has what was given" json "$tmp/out" "(d['name'], d['firmware'], d['user'], d['disk'], d['kernel']) == ('shot', 'uefi', 'kim', True, False)"
expect "image inspect for people" 0 image inspect shot
says "is a list" out "^firmware  *uefi"
says "dates it" out "^created  *[0-9]*-[0-9]*-[0-9]*$"
says "and tells its size" out "^size  *[0-9.]* KiB$"
expect "image import under a name" 0 image import --name other shot.qcow2
check "has that name" test "$(cat "$tmp/out")" = other
where=$(moat image inspect --json other | python3 -c 'import json, sys; print(json.load(sys.stdin)["dir"])')
cp "$where/manifest.json" manifest.json
chmod u+w "$where/manifest.json"
echo '{' >"$where/manifest.json"
expect "image ls with a damaged one" 0 image ls --names
says "names it, and what to do" err "image other cannot be used: .*manifest.json: not valid JSON.*moat image rm other"
cp manifest.json "$where/manifest.json"
expect "image import of a system that there is not" 1 image import --os-type amiga shot.qcow2
says "names those that there are" err '"amiga" is not one of .*"win11"'
expect "image import of nothing" 3 image import nothing
says "names the file" err "nothing: No such file"
echo text >text.txt
expect "image import of no disk" 1 image import text.txt
expect "image inspect of none" 3 image inspect nowhere
expect "image inspect of none, as JSON" 3 image inspect --json nowhere
check "is an error document" json "$tmp/out" "d['error']['kind'] == 'not_found'"

mkdir -p "$MOAT_HOME/data/recipes"
cat >"$MOAT_HOME/data/recipes/small.sh" <<'RECIPE'
#!/bin/sh
echo "progress 1 2 making a disk"
echo "progress 2500 10000 turning it"
head -c 1048576 /dev/urandom >"$1/disk"
echo '{"format":1,"arch":"x86_64","description":"a small disk","disk":"disk","disk_format":"raw"}' >"$1/manifest.json"
RECIPE
printf '#!/bin/sh\necho "the moon is missing" >&2\nexit 1\n' >"$MOAT_HOME/data/recipes/broken.sh"
printf '#!/bin/sh\necho "progress 1 2 waiting"\nsleep 600\n' >"$MOAT_HOME/data/recipes/endless.sh"
expect "image build" 0 image build small
check "prints the name" test "$(cat "$tmp/out")" = small
says "progress is on stderr" err "making a disk"
expect "its description" 0 image ls
says "is shown" out "^small .* a small disk$"
expect "image build of what is there" 0 image build --json small
check "prints the image" json "$tmp/out" "d['name'] == 'small' and d['size'] > 0"
check "and builds nothing" sh -c "! grep -q making '$tmp/err'"
expect "unless told to" 0 image build --rebuild small
says "then it does" err "making a disk"
expect "a recipe that fails" 1 image build broken
says "says why" err "the moon is missing"
expect "no recipe" 3 image build nowhere
says "says which there are" err "tiny"
printf '#!/bin/sh\n' >"$MOAT_HOME/data/recipes/tiny.sh"
expect "no recipe beside one that takes the place of ours" 3 image build nowhere
check "names that one once" test "$(sed 's/, \| /\n/g' "$tmp/err" | grep -cx tiny)" -eq 1
rm "$MOAT_HOME/data/recipes/tiny.sh"
if command -v script >/dev/null; then
	TERM=xterm script -qec "stty cols 80; $MOAT image build --rebuild small" /dev/null >drawn </dev/null
	check "progress is drawn on a terminal" grep -q "$esc\[K. making a disk \[############\.*] 1/2" drawn
	check "many steps are a part of the whole" grep -q "turning it \[######\.*\] 25 %" drawn
	TERM=xterm script -qec "stty cols 20; $MOAT image build --rebuild small" /dev/null >drawn </dev/null
	check "what does not fit the line is left out" python3 -c '
import re, sys
lines = re.sub("\x1b\\[[0-9]*[mK]", "", open(sys.argv[1], newline="").read()).replace("\n", "\r").split("\r")
assert any("making a" in line for line in lines) and max(map(len, lines)) < 20, lines' drawn
	TERM=dumb script -qec "$MOAT image build --rebuild small" /dev/null >drawn </dev/null
	check "on a dumb terminal it is lines" sh -c "grep -q '^making a disk' drawn && ! grep -q '$esc' drawn"
fi
background image build endless
wait_for grep -q waiting "$tmp/err"
kill -TERM "$pid"
wait "$pid"
check "an interrupted build ends with 130" test $? -eq 130
check "and leaves no image" sh -c "'$MOAT' image ls --names >names && ! grep -q endless names"

expect "image rm" 0 image rm small
check "prints the name" test "$(cat "$tmp/out")" = small
says "tells the gain" err "1.0 MiB freed"
expect "once is enough" 3 image rm small
# Too much memory is asked for, so that no VM starts.
expect "up --build" 1 up --build --no-wait --ram 4000000 --image small
says "builds first" err "making a disk"
expect "the image" 0 image inspect small
expect "up --build of what is there" 1 up --build --no-wait --ram 4000000 --image small
check "builds nothing" sh -c "! grep -q making '$tmp/err'"
expect "up --build without a recipe" 3 up --build --image nowhere
says "says so" err 'no recipe for "nowhere"'
expect "image import of a third one" 0 image import --name third shot.qcow2
expect "image rm of several" 0 image rm --json small shot
check "tells which" json "$tmp/out" "d['removed'] == ['small', 'shot'] and d['freed'] > 0 and 'error' not in d"
expect "one that is not there" 3 image rm nowhere other elsewhere
says "is named" err "nowhere"
says "as is the next" err "elsewhere"
check "and the others go" test "$(cat "$tmp/out")" = other
expect "as JSON" 3 image rm --json third nowhere
check "both are told" json "$tmp/out" "d['removed'] == ['third'] and d['freed'] > 0 and d['error']['kind'] == 'not_found'"
expect "nothing is left" 0 image ls --json
check "really" grep -qx '{"images":\[\],"damaged":\[\]}' "$tmp/out"
end_tests
