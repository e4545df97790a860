#!/bin/bash
# make-box.sh TINY OUT: a Vagrant box for libvirt in OUT/moat-test.json (and .box), made of moat's own
# image "tiny" (TINY is its directory in the image store) and of Debian's sshd, sudo, bash and rsync.
#
# The guest boots in seconds without KVM: the kernel is started directly, a small initramfs mounts the
# disk, and sshd listens before there is an address, so that Vagrant never meets a closed port.
# shellcheck source-path=SCRIPTDIR/../../share/recipes
set -euo pipefail
HERE=$(realpath "$(dirname "$0")/../../share/recipes")
. "$HERE/lib.sh"
. "$HERE/lib-linux.sh"
. "$HERE/lib-tiny.sh"

own=$(realpath "$(dirname "$0")")
tiny=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
work=$(mktemp -d "$out/work.XXXXXX")
export MOAT_CACHE_DIR=${MOAT_CACHE_DIR:-$out/cache}
recipe_begin "$out" "$work"
trap 'explain_exit; rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"

# --- the system -----------------------------------------------------------------------------------
progress 0 3 'fetching Debian packages'
TOOLS=$work/tools
packages='openssh-server openssh-sftp-server openssh-client sudo bash rsync'
apt_setup
apt_update
# shellcheck disable=SC2086 # a list of names
unpack "$TOOLS" $packages libpam-modules
# shellcheck disable=SC2086
libraries_fetch $packages
# Where its own linker looks for it, the one that lists libraries does not.
ln -sf ../../libexec/sudo/libsudo_util.so.0 "$TOOLS/usr/lib/x86_64-linux-gnu/"

progress 1 3 'making the system'
(cd "$root" && cpio -idm --quiet --no-absolute-filenames <"$tiny/initrd")
mkdir -p "$root/usr/lib/openssh" "$root/usr/libexec/sudo" "$root/usr/lib/x86_64-linux-gnu/security"
for program in usr/bin/bash usr/sbin/sshd usr/bin/ssh-keygen usr/bin/scp usr/bin/rsync usr/bin/sudo \
	usr/lib/openssh/sftp-server usr/lib/openssh/sshd-session usr/lib/openssh/sshd-auth \
	usr/libexec/sudo/sudoers.so usr/lib/x86_64-linux-gnu/security/pam_permit.so; do
	case $program in # parts of sshd in later releases
	*/sshd-session | */sshd-auth) [ -e "$TOOLS/$program" ] || continue ;;
	esac
	rm -f "$root/$program" # a link to busybox
	program_install "$root" "$program"
done
chmod 4755 "$root/usr/bin/sudo"

# --- accounts and settings ------------------------------------------------------------------------
cat >>"$root/etc/passwd" <<'PASSWD'
sshd:x:100:65534::/run/sshd:/bin/false
vagrant:x:1001:1001::/home/vagrant:/bin/bash
PASSWD
printf 'vagrant:x:1001:\n' >>"$root/etc/group"
# "*", not "!": sshd takes the latter for a locked account.
printf 'sshd:!:19000:0:99999:7:::\nvagrant:*:19000:0:99999:7:::\n' >>"$root/etc/shadow"
mkdir -p "$root/etc/pam.d" "$root/etc/ssh" "$root/home/user" "$root/home/vagrant/.ssh" "$root/var/empty"
printf 'root ALL=(ALL:ALL) ALL\nvagrant ALL=(ALL:ALL) NOPASSWD:ALL\n' >"$root/etc/sudoers"
chmod 440 "$root/etc/sudoers"
for service in sudo other; do
	for kind in auth account session password; do
		echo "$kind sufficient pam_permit.so"
	done >"$root/etc/pam.d/$service"
done
cp "$(find /usr/share /usr/lib /opt/vagrant -path '*/keys/vagrant.pub' 2>/dev/null | head -1)" "$root/home/vagrant/.ssh/authorized_keys"
chmod 600 "$root/home/vagrant/.ssh/authorized_keys"
chmod 700 "$root/home/vagrant/.ssh"
cat >"$root/etc/ssh/sshd_config" <<'SSHD'
HostKey /etc/ssh/host_key
UseDNS no
UsePAM no
PasswordAuthentication no
MaxSessions 64
MaxStartups 100:30:200
Subsystem sftp /usr/lib/openssh/sftp-server
SSHD
cat >"$root/etc/init.d/sshd" <<'START'
#!/bin/sh
# Before the network has an address: a closed port makes Vagrant wait, an unanswered packet does not.
mkdir -p /run/sshd
[ -f /etc/ssh/host_key ] || ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/host_key
exec /usr/sbin/sshd -D
START
chmod 755 "$root/etc/init.d/sshd"
sed -i '/init.d\/agent/d; s,^null::once:,null::respawn:/etc/init.d/sshd\n&,' "$root/etc/inittab"
: >"$root/etc/fstab.new"
grep -v ' /tmp ' "$root/etc/fstab" >"$root/etc/fstab.new"
mv "$root/etc/fstab.new" "$root/etc/fstab"
rm -f "$root/init" "$root/usr/sbin/qemu-ga"
# With Debian's options: Inspect's checks of a sandbox use them.
mv "$root/usr/sbin/adduser" "$root/usr/sbin/adduser.tiny"
cat >"$root/usr/sbin/adduser" <<'ADDUSER'
#!/bin/sh
while :; do
	case $1 in
	--comment) shift 2 ;;
	--disabled-password) shift ;;
	*) exec adduser.tiny "$@" ;;
	esac
done
ADDUSER
chmod 755 "$root/usr/sbin/adduser"

# --- the initramfs, with the drivers for the root disk and the network ----------------------------
ird=$work/initrd
mkdir -p "$ird"/{bin,dev,proc,sys,root,lib}
cp "$root/bin/busybox" "$ird/bin/"
modules=$(basename "$root"/usr/lib/modules/*)
mkdir -p "$ird/lib/modules"
cp -r "$root/usr/lib/modules/$modules" "$ird/lib/modules/"
cat >"$ird/init" <<'INIT'
#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
modprobe -a virtio_pci virtio_blk virtio_net ext4 crc32c_generic
until [ -b /dev/vda ]; do usleep 20000; done
mount -t ext4 -o noatime /dev/vda /root
for dir in proc sys dev; do mount --move /$dir /root/$dir; done
exec switch_root /root /sbin/init
INIT
chmod 755 "$ird/init"
(cd "$ird" && find . | cpio -o -H newc --quiet -R 0:0) >"$work/initrd.img"

# --- the box --------------------------------------------------------------------------------------
progress 2 3 'making the box'
mke2fs -q -F -t ext4 -O ^has_journal,^metadata_csum -E lazy_itable_init=0,root_owner=0:0 -m 0 -N 8000 -d "$root" "$work/disk.raw" 256M
{
	for owned in /home/user:1000 /home/vagrant:1001 /home/vagrant/.ssh:1001 /home/vagrant/.ssh/authorized_keys:1001; do
		printf 'sif %s uid %s\nsif %s gid %s\n' "${owned%:*}" "${owned#*:}" "${owned%:*}" "${owned#*:}"
	done
} >"$work/owners"
debugfs -w -f "$work/owners" "$work/disk.raw" >/dev/null 2>&1
qemu-img convert -f raw -O qcow2 "$work/disk.raw" "$work/box.img"
cp "$tiny/vmlinuz" "$work/vmlinuz"
printf '{"provider": "libvirt", "format": "qcow2", "virtual_size": 1}\n' >"$work/metadata.json"
cp "$own/box.Vagrantfile" "$work/Vagrantfile"
tar -C "$work" -czf "$out/moat-test.box" metadata.json Vagrantfile box.img vmlinuz initrd.img
printf '{"name": "moat-test", "versions": [{"version": "1.0.0", "providers": [{"name": "libvirt", "url": "file://%s/moat-test.box"}]}]}\n' \
	"$out" >"$out/moat-test.json"
progress 3 3 'done'
