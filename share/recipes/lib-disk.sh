# shellcheck shell=sh
# lib-disk.sh - disks that boot by themselves, from BIOS and UEFI, and by direct kernel boot. Made
# as an ordinary user: no loop device, no mount. Sourced after lib-linux.sh.
#
# Partition 1: FAT with kernel, initramfs, syslinux and systemd-boot. Partition 2: ext4, label root.

# shellcheck disable=SC2034 # for the recipes
DISK_TOOLS='busybox-static mtools syslinux syslinux-common systemd-boot-efi'
BOOT_START_MB=1
BOOT_SIZE_MB=63
ROOT_START_MB=64

# Modules of the initramfs: controllers of root disks, the random number device for which systemd
# waits, the port of the guest agent. The booted system loads all others.
DISK_MODULES='virtio-rng virtio_console virtio_pci virtio_mmio virtio_blk virtio_scsi ahci ata_piix
	ata_generic sd_mod sym53c8xx vmw_pvscsi nvme ext4 crc32c_generic crc32c_intel crct10dif_generic crc64_rocksoft'

# disk_initrd MODULES-DIR FILE: the initramfs that mounts the root disk.
disk_initrd() {
	for dir in dev proc sys root; do
		mkdir -p "$WORK/initrd/$dir"
	done
	busybox_install "$WORK/initrd"
	# shellcheck disable=SC2086 # a list of names
	modules_copy "$1" "$WORK/initrd/usr/lib/modules/${1##*/}" $DISK_MODULES
	cp "$HERE/boot/init" "$WORK/initrd/init"
	cp "$HERE/tiny/ports" "$WORK/initrd/ports"
	chmod 755 "$WORK/initrd/init" "$WORK/initrd/ports"
	cpio_pack "$WORK/initrd" 0:0 >"$2"
}

# ext4_make DISK SIZE_MB TREE JOURNAL_MB: the root partition. assume_storage_prezeroed: the file is
# new, and a kernel that finds its inode tables not yet zeroed would fill each overlay with them. The
# journal must hold what it takes to grow the file system while it is in use: with 16 MB a kernel
# crashed.
ext4_make() {
	options=root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0,assume_storage_prezeroed=1
	options=$options,hash_seed=6d6f6174-0000-4000-8000-000000000002
	E2FSPROGS_FAKE_TIME=$EPOCH guard mke2fs -q -F -t ext4 -L root -m 0 -J size="$4" \
		-U 6d6f6174-0000-4000-8000-000000000001 \
		-E "offset=$((ROOT_START_MB << 20)),$options" \
		-d "$3" "$1" "$(($2 - ROOT_START_MB))M"
}

byte() { # byte NUMBER...: as octal escapes for printf
	printf '\\%03o' "$@"
}

le32() {
	byte $(($1 & 255)) $(($1 >> 8 & 255)) $(($1 >> 16 & 255)) $(($1 >> 24 & 255))
}

# partition FLAGS TYPE START_MB SIZE_MB: one entry of the partition table, as escapes. The fields for
# cylinders, heads and sectors say "beyond their range".
partition() {
	byte "$1" 254 255 255 "$2" 254 255 255
	le32 $(($3 * 2048))
	le32 $(($4 * 2048))
}

# disk_boot DISK SIZE_MB BOOT-FILES CMDLINE: partition table, boot partition, both boot loaders.
disk_boot() {
	boot="$1@@$((BOOT_START_MB << 20))"
	mtools_path=$TOOLS/usr/bin:$PATH
	head -c 440 "$TOOLS/usr/lib/syslinux/mbr/mbr.bin" | dd of="$1" conv=notrunc status=none
	# 128 and 239: active, and an EFI system partition
	boot_entry=$(partition 128 239 $BOOT_START_MB $BOOT_SIZE_MB)
	root_entry=$(partition 0 131 $ROOT_START_MB $(($2 - ROOT_START_MB)))
	# shellcheck disable=SC2059 # escapes for this very printf
	printf "$(le32 1952542573)\\000\\000$boot_entry$root_entry" |
		dd of="$1" bs=1 seek=440 conv=notrunc status=none
	printf '\125\252' | dd of="$1" bs=1 seek=510 conv=notrunc status=none

	(
		export PATH="$mtools_path" MTOOLS_SKIP_CHECK=1 SOURCE_DATE_EPOCH="$EPOCH"
		mformat -i "$boot" -T $((BOOT_SIZE_MB * 2048)) -h 255 -s 63 -H $((BOOT_START_MB * 2048)) \
			-N 6d6f6174 -v BOOT ::
		guard syslinux --install --offset $((BOOT_START_MB << 20)) "$1"
		cat >"$WORK/syslinux.cfg" <<-CFG
			default linux
			prompt 0
			timeout 0
			label linux
			linux /vmlinuz
			initrd /initrd
			append $4
		CFG
		printf 'timeout 0\ndefault linux.conf\neditor no\n' >"$WORK/loader.conf"
		printf 'title linux\nlinux /vmlinuz\ninitrd /initrd\noptions %s\n' "$4" >"$WORK/linux.conf"
		mmd -i "$boot" ::/EFI ::/EFI/BOOT ::/loader ::/loader/entries
		# Firmware reads slowly: here the smaller initramfs starts sooner, unlike in direct boot.
		gzip -9 -n -c "$3/initrd" >"$WORK/initrd.gz"
		mcopy -i "$boot" "$3/vmlinuz" "$WORK/syslinux.cfg" ::/
		mcopy -i "$boot" "$WORK/initrd.gz" ::/initrd
		mcopy -i "$boot" "$TOOLS/usr/lib/systemd/boot/efi/systemd-bootx64.efi" ::/EFI/BOOT/BOOTX64.EFI
		mcopy -i "$boot" "$WORK/loader.conf" ::/loader/loader.conf
		mcopy -i "$boot" "$WORK/linux.conf" ::/loader/entries/linux.conf
	)
}

# disk_pack DISK: OUT/disk.qcow2, compressed. Boots are not slower for it, zstd or not.
disk_pack() {
	guard qemu-img convert -f raw -O qcow2 -c -o compression_type=zstd "$1" "$OUT/disk.qcow2" ||
		guard qemu-img convert -f raw -O qcow2 -c "$1" "$OUT/disk.qcow2" # built without zstd
	rm -f "$1"
}
