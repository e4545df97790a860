#!/bin/sh
# tiny-disk - the tiny system on a disk of its own, which boots from BIOS and from UEFI, on virtio,
# SCSI and IDE. For tests of booting from disks.
# shellcheck source-path=SCRIPTDIR
HERE=$(dirname "$0")
. "$HERE/lib.sh"
. "$HERE/lib-linux.sh"
. "$HERE/lib-tiny.sh"
. "$HERE/lib-disk.sh"

DISK_MB=320

# owners_set DISK TREE: mke2fs copies the owner of each file, and here that is whoever builds.
owners_set() {
	(cd "$2" && find . ! -path ./home/user) |
		sed -n 's,^\.\(/.*\)$,sif \1 uid 0\nsif \1 gid 0,p' >"$WORK/owners"
	printf 'sif /home/user uid 1000\nsif /home/user gid 1000\n' >>"$WORK/owners"
	debugfs -w -f "$WORK/owners" "$1?offset=$((ROOT_START_MB << 20))" >/dev/null
}

recipe_begin "$@"
cache_prune

progress 0 6 'reading the package lists'
apt_setup
apt_update

progress 1 6 'fetching Debian packages'
tools_fetch
# shellcheck disable=SC2086 # a list of names
unpack "$TOOLS" $DISK_TOOLS

progress 2 6 'preparing the kernel'
mkdir -p "$WORK/boot"
cp "$TOOLS"/boot/vmlinuz-* "$WORK/boot/vmlinuz"
disk_initrd "$TOOLS/usr/lib/modules/$VERSION" "$WORK/boot/initrd"

progress 3 6 'making the system'
tiny_rootfs "$WORK/root"
mkdir -p "$WORK/root/home/user"
find "$WORK/root" -exec touch -h -d "@$EPOCH" {} +

progress 4 6 'making the disk'
truncate -s "${DISK_MB}M" "$WORK/disk.raw"
ext4_make "$WORK/disk.raw" "$DISK_MB" "$WORK/root" 16
owners_set "$WORK/disk.raw" "$WORK/root"
disk_boot "$WORK/disk.raw" "$DISK_MB" "$WORK/boot" "root=LABEL=root rw $TINY_CMDLINE"

progress 5 6 'compressing the disk'
disk_pack "$WORK/disk.raw"
manifest name=tiny-disk \
	description='The tiny system on a disk that boots from BIOS and UEFI, for tests' \
	kernel= kernel_efi= initrd= cmdline= disk=disk.qcow2 disk_format=qcow2 \
	root=LABEL=root user=user min_ram_mb=128 firmware=any cloud_init=false
progress 6 6 'done'
