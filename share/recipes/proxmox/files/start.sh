#!/bin/sh
# start.sh - in a server, once it has started: gives it a certificate of its own, if it has none, and
# lets the storage `local` take everything.
set -eu
node=$(hostname)
to=/etc/pve/local/pveproxy-ssl

if [ ! -e "$to.pem" ]; then
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 \
		-subj "/CN=$node" -addext "subjectAltName=DNS:$node,DNS:localhost,IP:127.0.0.1" \
		-keyout "$scratch/key" -out "$scratch/pem" 2>"$scratch/log" || {
		cat "$scratch/log" >&2
		exit 1
	}
	# Not by mv: that file system has no owners.
	cat "$scratch/key" >"$to.key"
	cat "$scratch/pem" >"$to.pem"
	systemctl restart pveproxy.service
fi

# Releases before 8.4 know no content "import".
content=images,rootdir,iso,vztmpl,backup,snippets
pvesm set local --content "$content,import" || pvesm set local --content "$content"
