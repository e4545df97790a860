# shellcheck shell=sh
# lib-debian.sh - Debian releases as disk images. Sourced after lib-disk.sh.

DEBIAN_DISK_MB=8192
DEBIAN_MEMORY_MB=1500

# Kernel modules of the image: of drivers only those for devices of virtual machines; everything
# that is no driver (network protocols, file systems, crypto).
DEBIAN_MODULE_DIRS='arch block crypto fs kernel lib mm net security virt
	drivers/acpi drivers/ata drivers/block drivers/cdrom drivers/char drivers/connector drivers/crypto/virtio
	drivers/dax drivers/firmware drivers/gpu/drm/*.ko* drivers/gpu/drm/bochs drivers/gpu/drm/qxl
	drivers/gpu/drm/tiny drivers/gpu/drm/ttm drivers/gpu/drm/virtio drivers/gpu/drm/vmwgfx drivers/hid/*.ko*
	drivers/hid/usbhid drivers/i2c/*.ko* drivers/i2c/busses/i2c-i801* drivers/i2c/busses/i2c-piix4*
	drivers/i2c/algos drivers/input drivers/md drivers/net/*.ko* drivers/net/bonding
	drivers/net/ethernet/intel/e1000 drivers/net/ethernet/intel/e1000e drivers/net/ethernet/realtek
	drivers/net/ipvlan drivers/net/macvlan* drivers/net/team drivers/net/vmxnet3 drivers/net/vxlan
	drivers/net/wireguard drivers/nvdimm drivers/nvme drivers/pps drivers/ptp drivers/rtc drivers/scsi/*.ko*
	drivers/scsi/sym53c8xx_2 drivers/usb/common drivers/usb/core drivers/usb/host drivers/usb/storage
	drivers/video drivers/virt drivers/virtio drivers/watchdog/i6300esb* drivers/watchdog/iTCO*'

# debian_sources_derive CODENAME: a sources.list for that release from the mirrors that this machine
# uses for whichever release it has.
debian_sources_derive() {
	keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	option=
	[ ! -f "$keyring" ] || option="[signed-by=$keyring] "
	debian_sources | while read -r uri _ codename label; do
		case $label:$codename in
		Debian-Security:*) echo "deb $option$uri $1-security main" ;;
		Debian:*-updates) echo "deb $option$uri $1-updates main" ;;
		Debian:*-backports*) ;;
		Debian:*) echo "deb $option$uri $1 main" ;;
		esac
	done | sort -u
}

# Proxies that the machine's apt uses; mmdebstrap does not look at its configuration.
debian_proxies() {
	apt-config dump | grep -E '^Acquire::(http|https)::Proxy(-Auto-Detect)?(::| )' | grep -v ' "";$' || true
}

# namespace COMMAND...: as root, of the machine or else of a user namespace that has all of Debian's
# users. Mounts in there are nobody else's, and end with it, however it ends.
namespace() {
	if [ "$(id -u)" -eq 0 ]; then
		guard unshare --mount --pid --fork --kill-child=KILL -- "$@"
	else
		guard unshare --user --map-root-user --map-auto --mount --pid --fork --kill-child=KILL -- "$@"
	fi
}

# Fails before the long part of the build if namespaces cannot be made, and says what is missing.
namespace_check() {
	# shellcheck disable=SC2016 # for the inner shell
	namespace sh -c 'mount -t tmpfs none "$1"' sh "$WORK" && return 0
	name=$(id -un)
	[ "$(id -u)" -ne 0 ] ||
		die "this machine does not let root mount anything: a container without CAP_SYS_ADMIN?"
	for file in /etc/subuid /etc/subgid; do
		grep -q -E "^($name|$(id -u)):" "$file" 2>/dev/null ||
			die "$name has no range of ids in $file; as root:" \
				"usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $name"
	done
	die "user namespaces do not work for $name (sysctl kernel.unprivileged_userns_clone," \
		"user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)"
}

memory_check() {
	available=$(awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo)
	[ "$available" -ge "$DEBIAN_MEMORY_MB" ] ||
		die "the build needs $DEBIAN_MEMORY_MB MB of free memory, $available MB are available"
}

debian_kernel() {
	kernel=$(kernel_package)
	[ -n "$kernel" ] || die "the release has no $KERNEL_META"
	{
		printf '%s\n' './boot/*' '*/modules.order' '*/modules.builtin*'
		# shellcheck disable=SC2086 # a list of patterns; none matches here
		printf '*/kernel/%s\n' $DEBIAN_MODULE_DIRS
	} >"$WORK/patterns"
	unpack "$WORK/kernel" "$kernel" -- -T "$WORK/patterns" \
		--exclude='*/net/wireless' --exclude='*/net/mac80211' --exclude='*/net/bluetooth' \
		--exclude='*/net/nfc' --exclude='*/net/can' --exclude='*/net/ieee802154' --exclude='*/fs/ocfs2'
	MODULES=$WORK/kernel/usr/lib/modules/${kernel#linux-image-}
	depmod_run "$MODULES"
	kernel_files "$WORK/kernel/boot" "$OUT"
}

# debian_build NAME CODENAME DESCRIPTION
# shellcheck disable=SC2153 # KERNEL comes from kernel_files
debian_build() {
	# SYSTEMD_SECCOMP: init's environment. Filters around its own services would cost a fifth of an
	# emulated boot, and protect nothing where the user is root.
	cmdline="root=LABEL=root rw $LINUX_CMDLINE net.ifnames=0 SYSTEMD_SECCOMP=0"
	memory_check
	namespace_check
	cache_prune

	progress 0 9 'reading the package lists'
	apt_setup
	apt_update
	debian_sources_derive "$2" >"$WORK/sources.list"
	debian_proxies >"$WORK/proxies"

	progress 1 9 'fetching tools'
	TOOLS=$WORK/tools
	# shellcheck disable=SC2086 # a list of names
	unpack "$TOOLS" $DISK_TOOLS
	apt_setup "$WORK/sources.list"
	apt_update

	progress 2 9 'preparing the kernel'
	debian_kernel
	disk_initrd "$MODULES" "$OUT/initrd"

	progress 3 9 'downloading and unpacking packages'
	truncate -s "${DEBIAN_DISK_MB}M" "$WORK/disk.raw"
	# stage.sh reports its own progress, on fd 3.
	namespace sh "$HERE/debian/stage.sh" "$1" "$2" "$MODULES" "$WORK" "$CACHE" "$DEBIAN_DISK_MB"

	progress 7 9 'making the disk bootable'
	disk_boot "$WORK/disk.raw" "$DEBIAN_DISK_MB" "$OUT" "$cmdline"

	progress 8 9 'compressing the disk'
	disk_pack "$WORK/disk.raw"
	manifest name="$1" description="$3 with systemd, python3 and sudo" \
		kernel="$KERNEL" kernel_efi=vmlinuz initrd=initrd cmdline="$cmdline" \
		disk=disk.qcow2 disk_format=qcow2 root=LABEL=root user=user min_ram_mb=256 firmware=any \
		cloud_init=true
	progress 9 9 'done'
}
