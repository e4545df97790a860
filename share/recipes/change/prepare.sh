# shellcheck shell=sh
# prepare.sh - inside an image, before it is changed. stdin: the host's resolv.conf.
if [ -e /etc/resolv.conf ] || [ -L /etc/resolv.conf ]; then
	mv /etc/resolv.conf /etc/resolv.conf.moat
fi
cat >/etc/resolv.conf
# Packages must not start their services: nothing would end them, and they would run on the host.
[ ! -e /usr/sbin/policy-rc.d ] || mv /usr/sbin/policy-rc.d /usr/sbin/policy-rc.d.moat
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
