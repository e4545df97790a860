#!/bin/sh
# Every verb and option that help knows is in the completions and in the man page.
# shellcheck source=lib.sh disable=SC2016,SC2086,SC2119,SC3045
. "$(dirname "$0")/lib.sh"
man=$here/../../docs/moat.1

for shell in bash zsh fish; do
	expect "completion $shell" 0 completion $shell
	cp "$tmp/out" "$tmp/$shell"
done
expect "completion of another shell" 2 completion tcsh
check "bash reads its own" bash -n "$tmp/bash"
command -v zsh >/dev/null && check "zsh reads its own" zsh -n "$tmp/zsh"
command -v fish >/dev/null && check "fish reads its own" fish -n "$tmp/fish"

moat help | sed -n 's/^  \([a-z]*\) .*/\1/p' >"$tmp/verbs"
for verb in image pool proxmox; do
	moat help $verb | sed -n "/^Verbs:/,/^\$/s/^  \([a-z]*\) .*/$verb \1/p" >>"$tmp/verbs"
done
check "the verbs are found" test "$(wc -l <"$tmp/verbs")" -ge 34

offers() { # the words that bash would offer for the words given
	bash -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _moat; echo " ${COMPREPLY[*]} "' "$tmp/bash" moat "$@"
}
export PATH="$tmp/bin:$PATH"
mkdir "$tmp/bin" && ln -s "$(command -v "$MOAT")" "$tmp/bin/moat"

while read -r verb sub; do
	check "zsh: $verb $sub is offered" sh -c "
		sed -n '/^_moat_verbs${sub:+_of_$verb}()/,/^}/p' '$tmp/zsh' | grep -q \"^[[:blank:]]*'${sub:-$verb}:\""
	check "fish: $verb $sub is offered" grep -q "__moat_in \"${sub:+$verb}\"' -a ${sub:-$verb} " "$tmp/fish"
	check "man page: $verb $sub" grep -q "^\.It Cm $verb${sub:+ $sub}\b" "$man"
	for opt in $(moat help "$verb" $sub | sed -n 's/.*  --\([a-z0-9-]*\).*/\1/p; s/^  -., --\([a-z0-9-]*\).*/\1/p'); do
		if [ "$opt" != help ] && [ "$opt" != json ] && [ "$opt" != quiet ]; then
			check "man page: $verb $sub --$opt" sh -c "
				sed -n '/^\.It Cm $verb${sub:+ $sub}\b/,/^\.It Cm /p' '$man' | grep -q -- 'Fl -$opt\b'"
		fi
		case $(offers "$verb" ${sub:+"$sub"} -) in
		*" --$opt "*) result 0 "bash: $verb $sub --$opt" ;;
		*) result 1 "bash: $verb $sub --$opt" ;;
		esac
		check "zsh: $verb $sub --$opt" sh -c "
			sed -n \"/^\t'$verb${sub:+ $sub}')/,/;;/p\" '$tmp/zsh' | grep -q -- '--${opt}[]}\[]'"
		check "fish: $verb $sub --$opt" grep -q "__moat_in \"$verb${sub:+ $sub}\"' -l $opt\b" "$tmp/fish"
	done
done <"$tmp/verbs"
for word in "ready-fd" "no-start"; do
	check "internal --$word is not in the help" sh -c "! '$MOAT' help serve | grep -q -- '$word'"
done

case $(offers im) in *" image "*) result 0 "verbs are completed" ;; *) result 1 "verbs are completed" ;; esac
case $(offers image bu) in *" build "*) result 0 "second verbs too" ;; *) result 1 "second verbs too" ;; esac
case $(offers run --b) in *" --build "*) result 0 "run has the options of up" ;; *) result 1 "run has the options of up" ;; esac
case $(offers completion "") in *" zsh "*) result 0 "operands too" ;; *) result 1 "operands too" ;; esac
check "a key press starts no daemon" test ! -e "$MOAT_HOME/run/moat.sock"
if command -v fish >/dev/null; then
	mkdir -p "$tmp/x"
	fish_says() {
		HOME="$tmp" XDG_CONFIG_HOME="$tmp/x" XDG_DATA_HOME="$tmp/x" fish --no-config -c "source $tmp/fish; complete -C '$1'"
	}
	check "fish offers verbs" sh -c "[ -n \"\$1\" ]" sh "$(fish_says 'moat im' | grep '^image')"
	check "fish offers options" sh -c "[ -n \"\$1\" ]" sh "$(fish_says 'moat image build --reb' | grep '^--rebuild')"
fi
if command -v mandoc >/dev/null; then
	check "mandoc has no complaint about the man page" mandoc -Tlint -W warning "$man"
fi
end_tests
