#!/bin/sh
# facts.sh - in a server: what a client of it must know, for `moat proxmox env`. Waits until it has
# started.
set -eu
systemctl start moat-proxmox.service
fingerprint=$(openssl x509 -in /etc/pve/local/pveproxy-ssl.pem -noout -fingerprint -sha256)
printf 'node=%s\nfingerprint=%s\npassword=%s\n' "$(hostname)" "${fingerprint#*=}" \
	"$(cat /etc/moat-proxmox/password)"
