#!/bin/sh
# Help, usage errors and exit codes: everything that needs no daemon.
# shellcheck source=lib.sh disable=SC2016,SC2086,SC2119,SC2317,SC3045
. "$(dirname "$0")/lib.sh"

expect "no verb is a usage error" 2
says "and shows the verbs on stderr" err "make a sandbox"
silent "and nothing on stdout" out
expect "--help" 0 --help
says "lists the verbs on stdout" out "^  exec "
expect "help of a verb" 0 help exec
says "has its options" out "--timeout SECONDS"
says "and examples" out "moat exec -it"
cp "$tmp/out" "$tmp/help"
expect "VERB --help is the same" 0 exec --help
check "word for word" cmp "$tmp/help" "$tmp/out"
expect "help of a second verb" 0 help image build
says "has its options too" out "--rebuild"
expect "a verb that has verbs needs one" 2 image
expect "help of no verb" 2 help nonsense

expect "an unknown verb" 2 exce
says "suggests a known one" err 'did you mean "exec"'
expect "an unknown second verb" 2 image biuld
says "suggests a known one, too" err '^moat image: .*did you mean "build"'
says "and where all of them are" err '^see `moat help image`'
expect "a far-off verb" 2 frobnicate
check "suggests nothing" sh -c "! grep -q 'did you mean' '$tmp/err'"
expect "common options before the verb" 0 --json version
says "are those of the verb" out '^{"version"'
expect "where the verb takes them" 2 --json completion bash
expect "and before two words" 2 --quiet image frobnicate
says "so that the second is found" err '^moat image: no verb'
expect "an option of a verb before it" 2 --all ls
says "says that there is none" err "no option --all before the verb"
expect "an option and no verb" 2 --json
expect "-v is --version" 0 -v
says "as with other tools" out "^moat [0-9]"
expect "a word of other tools" 2 ps
says "is told ours" err 'here it is "ls"'
expect "another" 2 images
says "of two words" err 'here it is "image ls"'
expect "prefixes of verbs are not verbs" 2 sch
expect "an unknown option" 2 up --lable x=y
says "suggests a known one, as well" err "did you mean --label"
expect "internal options are not suggested" 2 serve --ready-df 3
check "so nothing is" sh -c "! grep -q 'ready-fd' '$tmp/err'"
expect "an option without its argument" 2 up --ram
says "says which" err "--ram needs MB"
expect "an argument that is not taken" 2 ls --json=yes
expect "too few arguments" 2 cp onlyone
expect "too many arguments" 2 rm --all x y z
expect "too many for ls" 2 ls a b
says "names the first one too many" err '"b"'
expect "exec's own usage errors are 125" 125 exec
expect "shell's too" 125 shell
expect "bad seconds" 125 exec --timeout soon x true
expect "bad environment" 125 exec -e =x x true
expect "environment without a name" 125 exec -e "" x true
expect "bad number" 2 up --ram lots tiny
says "says what a number is" err "is not a number of MB, nor a size like 4G"
expect "a unit that is none" 2 up --ram 4X tiny
expect "too much" 2 up --ram 5T tiny
says "says the most" err "more than 4194304 MB"
expect "cp needs a sandbox" 2 cp a b
expect "cp between sandboxes" 2 cp aaaa:x bbbb:y
says "shows the way" err "moat cp A:FILE - | moat cp - B:FILE"
expect "rm of nothing" 2 rm
expect "several servers are named by a file" 2 proxmox env one two
says "says how" err "give --json"
expect "serve cannot do two things" 2 serve --stop --background
expect "a label needs a value" 2 rm --label x

for verb in "image rm" "image cool" doctor "image inspect" up ls rm logs "snapshot x"; do
	expect "what is not UTF-8: $verb" 2 $verb "$(printf '\377\376')"
	says "says so" err "not UTF-8"
done
without() { # OPTION: the verbs that do not take it, in the order of their list
	for verb in $(moat help | sed -n 's/^  \([a-z]*\) .*/\1/p' | grep -vx -e image -e pool -e proxmox); do
		moat help "$verb" | grep -q -- " $1 " || printf '%s ' "$verb"
	done
}
check "--json is for all but those that the man page names" test "$(without --json)" = \
	"shell standby web capture serve completion help "
check "and --quiet" test "$(without --quiet)" = "web schema completion version help "
is_usage_error() { # MESSAGE: one document, and the usage on stderr
	json "$tmp/out" "list(d) == ['error'] and d['error'] == {'kind': 'invalid', 'message': '$1'}" &&
		grep -q "^see .moat help" "$tmp/err"
}
expect "an unknown option before --json" 2 ls --bogus --json
check "is an error document" is_usage_error "no option --bogus"
expect "too many arguments, as JSON" 2 ls a b --json
check "are one" is_usage_error 'unexpected argument "b"'
expect "too few for exec, as JSON" 125 exec --json
check "are one, too" is_usage_error "too few arguments"
expect "what a verb itself finds wrong, as JSON" 2 rm --json
check "is one as well" is_usage_error "give sandboxes, or --all, or --label NAME=VALUE"
expect "an unknown verb, as JSON" 2 frobnicate --json
check "is one of them" is_usage_error 'no verb "frobnicate"'
expect "a command's --json" 125 exec --bogus x ls --json
silent "is not ours" out
expect "nor is an option's argument" 2 up --bogus --label --json
silent "which is told apart" out

cd "$tmp" || exit 1
expect "up of nothing" 2 up
says "shows examples" err "moat up debian12"
printf 'vms: [\n' >bad.yaml
expect "a spec that is not YAML" 1 up bad.yaml
says "names file and line" err "bad.yaml: line 2"
expect "a spec that is not there" 3 up nowhere.yaml
says "names it" err "nowhere.yaml: No such file"
expect "a local file that is not there" 3 cp nowhere abcd:x

expect "version" 0 version
says "prints it" out "^moat [0-9]"
expect "--version" 0 --version
expect "version as JSON" 0 version --json
check "is JSON" python3 -c 'import json,sys; json.load(open(sys.argv[1]))["protocol"]' "$tmp/out"
expect "schema" 0 schema
check "is a JSON Schema" python3 -c 'import json,sys; assert "$schema" in json.load(open(sys.argv[1]))' "$tmp/out"
moat version >/dev/full 2>"$tmp/err"
check "a full disk is noticed" test $? -eq 1

unset HOME
MOAT_HOME='' expect "without HOME" 1 ls
says "says what to set" err "MOAT_HOME"
for verb in help version schema "completion bash"; do
	MOAT_HOME='' expect "$verb needs no HOME" 0 $verb
done
end_tests
