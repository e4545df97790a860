# shellcheck shell=sh
# finish.sh - inside an image, after it was changed: undoes prepare.sh, and removes what apt keeps.
rm -f /usr/sbin/policy-rc.d /etc/resolv.conf /etc/apt/apt.conf.d/99moat-proxies
[ ! -e /usr/sbin/policy-rc.d.moat ] || mv /usr/sbin/policy-rc.d.moat /usr/sbin/policy-rc.d
if [ -e /etc/resolv.conf.moat ] || [ -L /etc/resolv.conf.moat ]; then
	mv /etc/resolv.conf.moat /etc/resolv.conf
fi
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
! command -v apt-get >/dev/null || apt-get clean
