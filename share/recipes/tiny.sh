#!/bin/sh
# tiny - kernel and initramfs with busybox and the guest agent; runs from memory, needs no disk.
# For demos and tests.

# shellcheck source-path=SCRIPTDIR
HERE=$(dirname "$0")
. "$HERE/lib.sh"
. "$HERE/lib-linux.sh"
. "$HERE/lib-tiny.sh"

recipe_begin "$@"
cache_prune

progress 0 5 'reading the package lists'
apt_setup
apt_update

progress 1 5 'fetching Debian packages'
tools_fetch

progress 2 5 'preparing the kernel'
kernel_files "$TOOLS/boot" "$OUT"

progress 3 5 'making the system'
tiny_rootfs "$WORK/root"
ln -s /bin/busybox "$WORK/root/init"
mkdir -p "$WORK/owned/home/user"

progress 4 5 'packing the initramfs'
# The kernel unpacks one archive after the other: each has its owner.
{
	cpio_pack "$WORK/root" 0:0
	cpio_pack "$WORK/owned" 1000:1000 home/user
} >"$OUT/initrd"

manifest name=tiny \
	description='Kernel and initramfs with busybox and the guest agent, for demos and tests' \
	kernel="$KERNEL" kernel_efi=vmlinuz initrd=initrd \
	cmdline="$TINY_CMDLINE" \
	disk= disk_format= root= user=user min_ram_mb=128 firmware=any cloud_init=false
progress 5 5 'done'
