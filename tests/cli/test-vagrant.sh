#!/bin/sh
# The environment that `moat up Vagrantfile` hands over, with a script in the place of vagrant. No VM.
# shellcheck source=lib.sh disable=SC2119
. "$(dirname "$0")/lib.sh"

mkdir "$tmp/bin" "$tmp/eval"
cat >"$tmp/bin/vagrant" <<-'SCRIPT'
	#!/bin/sh
	cat /proc/$$/environ >"$SEEN" # a shell drops names that are not its own
	echo "enough seen" >&2
	exit 1
SCRIPT
chmod +x "$tmp/bin/vagrant"
echo "# not read" >"$tmp/eval/Vagrantfile"
cd "$tmp/eval" || exit 1
export PATH="$tmp/bin:$PATH" SEEN="$tmp/seen"

# shellcheck disable=SC2317 # called by check
seen() { # VARIABLE=PATTERN: whole, in vagrant's environment
	tr '\0' '\n' <"$tmp/seen" | grep -q -x -- "$1"
}

odd() { # a client with names that no shell would make; also those that JSON has not
	env "2FA_MODE=on" "a.b-c=d" "$(printf 'caf\351=1')" INSPECT_SANDBOX_CACHE_DIR=boxes \
		"$MOAT" up Vagrantfile >"$tmp/out" 2>"$tmp/err" </dev/null
}

# Started by such a client, too: its own environment is the daemon's.
odd
check "vagrant has run" grep -q "enough seen" "$tmp/err"
check "a name that begins with a digit is handed over" seen "2FA_MODE=on"
check "and one with punctuation" seen "a.b-c=d"
check "a relative directory is one of the client's" seen "VAGRANT_CWD=$tmp/eval/boxes/moat-\([a-z0-9]*\)/moat-\1"
check "nothing is left in it" test -z "$(ls -A "$tmp/eval/boxes")"

end_tests
