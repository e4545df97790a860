#!/bin/sh
# guest-sshd.sh KEY - serves one SSH connection on stdin and stdout, to whoever has that key.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
dir=/run/moat-ssh
if ! sshd=$(command -v sshd); then
	echo 'moat: this VM has no sshd; moat shell and moat cp need none' >&2
	exit 1
fi
umask 022
mkdir -p "$dir" /run/sshd || exit 1
printf '%s\n' "$1" >"$dir/keys.$$" && mv "$dir/keys.$$" "$dir/keys" || exit 1
if ! [ -e "$dir/host" ]; then
	ssh-keygen -q -t ed25519 -N '' -f "$dir/host.$$" && ln "$dir/host.$$" "$dir/host"
	rm -f "$dir/host.$$" "$dir/host.$$.pub"
fi
exec "$sshd" -i -o "HostKey=$dir/host" -o "AuthorizedKeysFile=$dir/keys" \
	-o PermitRootLogin=prohibit-password
