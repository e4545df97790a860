#!/bin/sh
# container - what a container image needs to be a VM: a kernel, and an initramfs with nothing but
# kernel modules. It has no program: moat adds its own (docs/images.md) to it when a VM starts.

# shellcheck source-path=SCRIPTDIR
HERE=$(dirname "$0")
. "$HERE/lib.sh"
. "$HERE/lib-linux.sh"
. "$HERE/lib-tiny.sh"

# Nested containers limit their memory with cgroups, so these stay, unlike in lib-tiny.sh.
CONTAINER_CMDLINE="$LINUX_CMDLINE rdinit=/moat/init lsm= init_on_alloc=0"

# For the machine itself, on any controller that a spec may ask for.
MACHINE_MODULES='virtio_pci virtio_mmio virtio_blk virtio_scsi virtio_net virtio_console virtio-rng
	virtio_balloon virtio_input e1000 ahci ata_piix ata_generic sd_mod sr_mod evdev button vmgenid
	ext4 crc32c_generic crc32c_intel crct10dif_generic crc64_rocksoft'

# For what people run in containers: containers in them, packet filters, tunnels, disk images.
# Names of folders stand for all that is in them.
GUEST_MODULES='overlay fuse squashfs isofs vfat nls_cp437 nls_ascii nls_utf8 9p 9pnet_virtio virtiofs loop
	nbd binfmt_misc
	bridge br_netfilter veth tun tap dummy ifb macvlan macvtap ipvlan vxlan wireguard bonding 8021q
	ip_gre ip6_gre ipip sit ip_tunnel unix_diag inet_diag tcp_diag udp_diag raw_diag netlink_diag
	packet_diag af_alg algif_hash algif_skcipher algif_aead tls sctp xfrm_user af_key
	sch_netem sch_tbf sch_htb sch_ingress sch_fq_codel sch_prio cls_u32 cls_fw cls_bpf act_mirred
	act_police'
GUEST_FOLDERS='net/netfilter net/ipv4/netfilter net/ipv6/netfilter net/bridge/netfilter'

# Where all those and their dependencies are. Unpacking a whole kernel package takes 400 MB.
CONTAINER_DIRS='arch/x86/crypto block crypto drivers/acpi drivers/ata drivers/block drivers/cdrom drivers/char
	drivers/input drivers/net/*.ko* drivers/net/bonding drivers/net/ethernet/intel/e1000
	drivers/net/ipvlan drivers/net/vxlan drivers/net/wireguard drivers/pps drivers/ptp drivers/scsi/*.ko*
	drivers/usb/common drivers/usb/core drivers/virt drivers/virtio fs/*.ko* fs/9p fs/ext4 fs/fat fs/fuse
	fs/fscache fs/isofs fs/jbd2 fs/netfs fs/nls fs/overlayfs fs/squashfs lib net'

recipe_begin "$@"
cache_prune

progress 0 4 'reading the package lists'
apt_setup
apt_update

progress 1 4 'fetching Debian packages'
TOOLS=$WORK/tools
kernel=$(kernel_package)
[ -n "$kernel" ] || die "the apt sources of this machine have no $KERNEL_META"
VERSION=${kernel#linux-image-}
{
	printf '%s\n' './boot/*' '*/modules.order' '*/modules.builtin' '*/modules.builtin.modinfo'
	# shellcheck disable=SC2086 # a list of patterns; none matches here
	printf '*/kernel/%s\n' $CONTAINER_DIRS
} >"$WORK/patterns"
unpack "$TOOLS" busybox-static kmod
libraries_fetch kmod
unpack "$TOOLS" "$kernel" -- -T "$WORK/patterns"

progress 2 4 'preparing the kernel'
kernel_files "$TOOLS/boot" "$OUT"

progress 3 4 'packing the initramfs'
FROM=$TOOLS/usr/lib/modules/$VERSION
# shellcheck disable=SC2086 # lists of names
names=$(cd "$FROM/kernel" && find $GUEST_FOLDERS -name '*.ko*' | sed 's|.*/||; s|[.]ko.*||')
# shellcheck disable=SC2086
modules_copy "$FROM" "$WORK/root/lib/modules/$VERSION" $MACHINE_MODULES $GUEST_MODULES $names
# Checking signatures is a tenth of an emulated boot.
find "$WORK/root/lib/modules" -name '*.ko' >"$WORK/unsigned"
while read -r module; do
	module_unsign "$module"
done <"$WORK/unsigned"
cp "$FROM/modules.builtin.modinfo" "$WORK/root/lib/modules/$VERSION/"
# busybox writes the index as text, which is what moat's own modprobe reads. A modprobe in an image may
# want what kmod writes.
guard "$TOOLS/lib64/ld-linux-x86-64.so.2" --library-path "$TOOLS/usr/lib/x86_64-linux-gnu" --argv0 depmod \
	"$TOOLS/usr/bin/kmod" -b "$WORK/root" "$VERSION"
for dir in dev proc sys run root moat; do
	mkdir -p "$WORK/root/$dir"
done
cpio_pack "$WORK/root" 0:0 >"$OUT/initrd"

manifest name=container \
	description='Kernel and modules that container images are started with' \
	kernel="$KERNEL" kernel_efi=vmlinuz initrd=initrd \
	cmdline="$CONTAINER_CMDLINE" \
	disk= disk_format= root= user= min_ram_mb=64 firmware=any cloud_init=false
progress 4 4 'done'
