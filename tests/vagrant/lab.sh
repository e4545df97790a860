#!/bin/bash
# lab.sh DIR COMMAND...: runs COMMAND where Vagrant with libvirt works, and leaves nothing. As root.
#
# libvirtd runs in mount, network and pid namespaces of its own, with all its files in DIR: the
# machine's own libvirt, if there is one, is neither seen nor touched, and everything ends with COMMAND.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
if [ "${1-}" != --inside ]; then
	mkdir -p "$1"
	exec unshare --mount --net --pid --fork --kill-child --mount-proc --propagation private \
		"$here/lab.sh" --inside "$(realpath "$1")" "${@:2}"
fi
lab=$2
shift 2

private() { # private DIR: an empty one of the lab's in its place
	mkdir -p "$lab/root$1" "$1"
	mount --bind "$lab/root$1" "$1"
}
export MEASURED_PID=1 # for tests/measured.py: ours, the one above is out of sight
mount -t sysfs sysfs /sys
rm -rf "$lab/root" # what is in there is of a run that was killed
for dir in /var/lib/libvirt /var/log/libvirt /var/cache/libvirt /run/libvirt /etc/libvirt; do
	private "$dir"
done
mkdir -p /var/lib/libvirt/images /var/lib/libvirt/dnsmasq
ip link set lo up

# There may be no cgroups, no AppArmor and no virtlogd: QEMU runs as it is.
cat >/etc/libvirt/qemu.conf <<'CONF'
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
CONF
printf 'unix_sock_ro_perms = "0700"\nauth_unix_ro = "none"\nauth_unix_rw = "none"\n' >/etc/libvirt/libvirtd.conf

export LIBVIRT_DEFAULT_URI=qemu:///system
export VAGRANT_HOME=$lab/vagrant.d VAGRANT_DEFAULT_PROVIDER=libvirt VAGRANT_NO_COLOR=1 \
	VAGRANT_CHECKPOINT_DISABLE=1 VAGRANT_BOX_UPDATE_CHECK_DISABLE=1
mkdir -p "$VAGRANT_HOME"

libvirtd --pid-file "$lab/libvirtd.pid" >"$lab/libvirtd.log" 2>&1 &
for _ in $(seq 1200); do
	virsh -q version >/dev/null 2>&1 && break
	sleep 0.1
done
# no-ping: dnsmasq would wait three seconds for an answer before it gives an address away.
cat >"$lab/network.xml" <<'XML'
<network xmlns:dnsmasq='http://libvirt.org/schemas/network/dnsmasq/1.0'>
  <name>vagrant-libvirt</name>
  <forward mode='nat'/>
  <bridge name='virbr121' stp='off' delay='0'/>
  <ip address='192.168.121.1' netmask='255.255.255.0'>
    <dhcp><range start='192.168.121.2' end='192.168.121.254'/></dhcp>
  </ip>
  <dnsmasq:options><dnsmasq:option value='no-ping'/></dnsmasq:options>
</network>
XML
virsh -q net-define "$lab/network.xml"
virsh -q net-start vagrant-libvirt
code=0
"$@" || code=$?
for domain in $(virsh -q list --all --name); do
	echo "lab: the machine $domain was left behind" >&2
	virsh -q destroy "$domain" || true
done
exit "$code"
