#!/bin/sh
# settle-cloud.sh - the last step of a cloud image, run among its files. Without cloud-init's data, as
# in a VM that asks for none, cloud-init does nothing: what such a VM still needs is set here.
set -e
systemctl enable qemu-guest-agent 2>/dev/null || true # Debian's is started by its device
systemctl mask systemd-networkd-wait-online.service 2>/dev/null

# The network is by DHCP, as of every sandbox, unless cloud-init says otherwise: its file comes first.
if [ -d /etc/netplan ]; then
	printf '%s\n' 'network:' '  version: 2' '  ethernets:' '    moat:' '      match: {name: "e*"}' \
		'      dhcp4: true' '      optional: true' >/etc/netplan/99-moat.yaml
	chmod 600 /etc/netplan/99-moat.yaml
elif systemctl is-enabled -q systemd-networkd 2>/dev/null; then
	printf '%s\n' '[Match]' 'Name=e*' '[Network]' 'DHCP=yes' >/etc/systemd/network/99-moat.network
fi

# Keys of its own for each machine.
if [ -x /usr/sbin/sshd ]; then
	mkdir -p /etc/systemd/system/ssh.service.d
	printf '%s\n' '[Service]' 'ExecStartPre=' 'ExecStartPre=/usr/bin/ssh-keygen -A' \
		'ExecStartPre=/usr/sbin/sshd -t' >/etc/systemd/system/ssh.service.d/moat-keys.conf
	rm -f /etc/ssh/ssh_host_*
fi
: >/etc/machine-id
rm -f /var/lib/dbus/machine-id
