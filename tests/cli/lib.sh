# lib.sh - read by every test of the command line. MOAT names the binary under test. Each test has a MOAT_HOME of its
# own, short because a socket's path may not be long. A test is a list of `check DESCRIPTION COMMAND...`; TAP on stdout.
# shellcheck shell=sh disable=SC2034

set -u
: "${MOAT:?set MOAT to the binary under test}"
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d /tmp/moat-cli.XXXXXX)
export MOAT_HOME="$tmp/h" NO_COLOR=1
unset MOAT_RUNTIME_DIR MOAT_STATE_DIR MOAT_CACHE_DIR MOAT_CONFIG XDG_RUNTIME_DIR
fake_pid=
count=0
failed=0

moat() {
	"$MOAT" "$@"
}

# Ends what the test started, and nothing else.
finish() {
	if [ -n "$fake_pid" ]; then
		kill "$fake_pid" 2>/dev/null
		wait "$fake_pid" 2>/dev/null
	elif [ -S "$MOAT_HOME/run/moat.sock" ]; then
		moat serve --stop --force >/dev/null 2>&1
	fi
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

# Starts moat beside us; its pid in $pid, its output as with run.
background() {
	: >"$tmp/out"
	: >"$tmp/err" # now, so that nobody waits for what an earlier one said
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

# A sandbox without a VM; see fake-daemon.py. Its files are in $tmp/root.
start_fake() {
	mkdir -p "$MOAT_HOME/run" "$tmp/root"
	: >"$tmp/log"
	python3 "$here/fake-daemon.py" "$MOAT_HOME/run/moat.sock" "$tmp/root" "$tmp/log" "$@" >"$tmp/fake.out" 2>&1 &
	fake_pid=$!
	wait_for test -S "$MOAT_HOME/run/moat.sock"
	id=abcd1234
}

# Runs a command and fails if it has ever used more than 100 MB. (AddressSanitizer would keep freed memory.)
in_little_memory() {
	ASAN_OPTIONS="${ASAN_OPTIONS:-}:quarantine_size_mb=4" python3 -c '
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
sys.exit(code or used > 100 << 10)' "$@"
}

wait_for() { # COMMAND...: until it succeeds, 20 seconds at most
	tries=0
	until "$@" >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ "$tries" -lt 400 ] || return 1
		sleep 0.05
	done
}

end_tests() {
	echo "1..$count"
	exit "$failed"
}
