#!/bin/sh
# setup.sh - inside an image, when the packages of Proxmox VE are installed: what the vendor's manual
# leaves to the user, and what moat's Debian does not have. A server does the rest when it starts
# (files/start.sh).
set -eu
files=/usr/share/moat-proxmox
chmod -R u=rwX,go=rX "$files"

# The packages bring sources that need a subscription: with them nothing could be installed later.
rm -f /proxmox_install_mode /etc/apt/sources.list.d/pve-enterprise.* /etc/apt/sources.list.d/ceph.*

install -D -m 644 "$files/interfaces" /etc/network/interfaces
install -D -m 644 "$files/unmanaged.network" /etc/systemd/network/10-moat-proxmox.network
install -D -m 644 "$files/modules" /etc/modules-load.d/moat-proxmox.conf
install -D -m 644 "$files/moat-proxmox.service" /etc/systemd/system/moat-proxmox.service

# Units that moat's Debian goes without: files of the cluster are a FUSE file system, and device
# files come from modules that are loaded when they are opened.
while read -r unit; do
	mask=/etc/systemd/system/$unit
	[ "$(readlink "$mask")" != /dev/null ] || rm "$mask"
done <"$files/units"

systemctl --quiet enable moat-proxmox.service
# Each zone of the SDN has a dnsmasq of its own; the common one would take their port.
systemctl --quiet disable dnsmasq.service
printf 'root:%s\n' "$(cat /etc/moat-proxmox/password)" | chpasswd
chmod 700 /etc/moat-proxmox
