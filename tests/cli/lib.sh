# lib.sh - read by every test of the command line. MOAT names the binary under test. Each test has a MOAT_HOME of its
# own; those that call use_sandbox share one, with its daemon and its VMs.
# A test is a list of `check DESCRIPTION COMMAND...`; TAP on stdout.
# shellcheck shell=sh disable=SC2034

set -u
: "${MOAT:?set MOAT to the binary under test}"
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d /tmp/moat-cli.XXXXXX)
shared=${MOAT_TEST_SHARED:-$tmp/shared} # from run, which ends what is in there
esc=$(printf '\033')
export MOAT_HOME="$tmp/h" NO_COLOR=1
unset MOAT_RUNTIME_DIR MOAT_STATE_DIR MOAT_CACHE_DIR MOAT_CONFIG XDG_RUNTIME_DIR
rogue_pid=
count=0
failed=0

moat() {
	"$MOAT" "$@"
}

stop_daemon() { # HOME
	if [ -S "$1/run/moat.sock" ]; then
		MOAT_HOME=$1 "$MOAT" serve --stop --force >/dev/null 2>&1
	fi
}

# Ends what the test started, and nothing else.
finish() {
	if [ -n "$rogue_pid" ]; then
		kill "$rogue_pid" 2>/dev/null
		wait "$rogue_pid" 2>/dev/null
	else
		stop_daemon "$tmp/h"
	fi
	[ "$shared" != "$tmp/shared" ] || stop_daemon "$shared/h"
	chmod -R u+rwx "$tmp"
	rm -rf "$tmp"
}
trap finish EXIT
trap 'exit 1' INT TERM

result() { # 0|1 DESCRIPTION
	count=$((count + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $count - $2"
	else
		echo "not ok $count - $2"
		failed=1
	fi
}

check() { # DESCRIPTION COMMAND...: the command succeeds
	what=$1
	shift
	if "$@" >"$tmp/check.out" 2>&1; then
		result 0 "$what"
	else
		result 1 "$what"
		sed 's/^/# /' "$tmp/check.out"
	fi
}

# Runs moat; its exit code in $code, what it printed in $tmp/out and $tmp/err.
run() {
	moat "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
	code=$?
}

# Starts moat in the background; its pid in $pid, its output as with run.
background() {
	: >"$tmp/out"
	: >"$tmp/err" # emptied now, so that no test waits for text of an earlier moat
	"$MOAT" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null &
	pid=$!
}

expect() { # DESCRIPTION CODE ARGUMENT...: moat ends with that code
	what=$1 want=$2
	shift 2
	run "$@"
	[ "$code" -eq "$want" ]
	result $? "$what"
	[ "$code" -eq "$want" ] || {
		echo "# exit code $code instead of $want"
		sed 's/^/# /' "$tmp/out" "$tmp/err"
	}
}

says() { # DESCRIPTION out|err PATTERN
	check "$1" grep -q -- "$3" "$tmp/$2"
}

silent() { # DESCRIPTION out|err
	check "$1" test ! -s "$tmp/$2"
}

json() { # FILE EXPRESSION: true of the document d
	python3 -c 'import json,sys; d = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' "$1" "$2"
}

daemon_pid() {
	moat info --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["pid"])'
}

# The sandbox that all tests share, booted by the first test that needs it: its id in $id, its machines are "default" and
# "screen", which has a display. What its `moat up` printed is in $shared/up.out and up.err.
use_sandbox() {
	MOAT_HOME=$shared/h
	id=$(cat "$shared/id" 2>/dev/null)
	if [ -n "$id" ] && moat ls "$id" >/dev/null 2>&1; then
		return
	fi
	mkdir -p "$shared"
	if ! moat doctor qemu >/dev/null 2>&1 || ! moat image build tiny >/dev/null 2>"$tmp/err"; then
		echo "1..0 # SKIP no QEMU or no tiny image: $(tail -n 1 "$tmp/err")"
		exit 77
	fi
	moat up --json --quiet --name shared -l a=b=c -l "note=${esc}[2Jhello" - >"$shared/up.out" 2>"$shared/up.err" <<-LAB
		vms:
		- {name: default, source: tiny, ram_mb: 192, vcpus: 1}
		- {name: screen, source: tiny, ram_mb: 192, vcpus: 1, vga: std, warm: false}
	LAB
	id=$(sed -n 's/^{"sandbox":"\([0-9a-z]*\)".*/\1/p' "$shared/up.out")
	echo "$id" >"$shared/id"
	if [ -z "$id" ]; then
		sed 's/^/# /' "$shared/up.err"
		result 1 "a sandbox to test with"
		end_tests
	fi
}

guest() { # COMMAND...: in the shared sandbox
	moat exec "$id" "$@" </dev/null
}

# Runs a command and fails if it has ever used more than 48 MB. (AddressSanitizer would keep freed memory.)
in_little_memory() {
	ASAN_OPTIONS="${ASAN_OPTIONS:-}:quarantine_size_mb=4" python3 -c '
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
sys.exit(code or used > 48 << 10)' "$@"
}

wait_for() { # COMMAND...: until it succeeds, 60 seconds at most
	tries=0
	until "$@" >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ "$tries" -lt 1200 ] || return 1
		sleep 0.05
	done
}

end_tests() {
	echo "1..$count"
	exit "$failed"
}
