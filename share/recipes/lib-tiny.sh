# shellcheck shell=sh
# lib-tiny.sh - the tiny system as a directory tree. Sourced after lib-linux.sh by tiny.sh, tiny-disk.sh.

# Drivers for the hardware of virtual machines, on QEMU and elsewhere.
TINY_MODULES='virtio_pci virtio_mmio virtio_console virtio_net 8021q virtio_blk virtio_scsi virtio-rng
	virtio_balloon virtio_input e1000 e1000e vmxnet3 8139cp ahci ata_piix ata_generic sd_mod sr_mod
	sym53c8xx vmw_pvscsi nvme ext4 isofs vfat nls_cp437 nls_ascii nls_utf8 overlay loop bridge veth tun
	crc32c_generic crc32c_intel crct10dif_generic crc64_rocksoft vmgenid af_packet
	button evdev 9p 9pnet_virtio virtiofs'

# What follows LINUX_CMDLINE turns off parts of the kernel that nothing here uses. They are a tenth of
# what an emulated guest executes to start a program.
# shellcheck disable=SC2034 # used by tiny.sh and tiny-disk.sh
TINY_CMDLINE="$LINUX_CMDLINE lsm= cgroup_disable=memory psi=0 init_on_alloc=0"

# Where those modules and their dependencies are. Unpacking a whole kernel package takes 400 MB.
TINY_MODULE_DIRS='arch/x86/crypto block crypto drivers/acpi drivers/ata drivers/block drivers/cdrom
	drivers/char drivers/input drivers/net/*.ko* drivers/net/ethernet/intel/e1000*
	drivers/net/ethernet/realtek drivers/net/vmxnet3 drivers/nvme drivers/pps
	drivers/ptp drivers/scsi/*.ko* drivers/scsi/sym53c8xx_2 drivers/usb/common drivers/usb/core
	drivers/virt drivers/virtio fs/*.ko* fs/9p fs/ext4 fs/fat fs/fuse fs/fscache fs/isofs fs/jbd2
	fs/netfs fs/nls fs/overlayfs lib net/802 net/8021q net/9p net/bridge net/core net/llc net/packet'

# tools_fetch: busybox, the kernel and the guest agent with its libraries, unpacked into TOOLS.
tools_fetch() {
	TOOLS=$WORK/tools
	kernel=$(kernel_package)
	[ -n "$kernel" ] || die "the apt sources of this machine have no $KERNEL_META"
	unpack "$TOOLS" busybox-static qemu-guest-agent
	libraries_fetch qemu-guest-agent
	VERSION=${kernel#linux-image-}
	{
		printf '%s\n' './boot/*' '*/modules.order' '*/modules.builtin'
		# shellcheck disable=SC2086 # a list of patterns; none matches here
		printf '*/kernel/%s\n' $TINY_MODULE_DIRS
	} >"$WORK/patterns"
	unpack "$TOOLS" "$kernel" -- -T "$WORK/patterns"
}

# libraries_fetch PACKAGE...: unpacks the library packages that these depend on, directly or not.
libraries_fetch() {
	wanted=$*
	known=
	while [ -n "$wanted" ]; do
		# shellcheck disable=SC2086 # lists of names
		found=$(apt_tool apt-cache depends --no-recommends --no-suggests --no-conflicts --no-breaks \
			--no-replaces --no-enhances $wanted |
			awk '$1 ~ /Depends:$/ && $2 ~ /^(lib[a-z0-9.+-]*|zlib1g)$/ { print $2 }')
		wanted=
		for package in $found; do
			case " $known $wanted " in
			*" $package "*) ;;
			*) wanted="$wanted $package" ;;
			esac
		done
		known="$known$wanted"
	done
	# shellcheck disable=SC2086
	unpack "$TOOLS" $known
}

# program_install ROOT PROGRAM: copies a program with the shared libraries that it really loads.
program_install() {
	libs=$TOOLS/usr/lib/x86_64-linux-gnu
	loader=$TOOLS/lib64/ld-linux-x86-64.so.2
	mkdir -p "$1/usr/lib/x86_64-linux-gnu" "$1/usr/lib64"
	cp "$TOOLS/$2" "$1/$2"
	cp -L "$loader" "$1/usr/lib64/"
	"$loader" --library-path "$libs" --list "$TOOLS/$2" >"$WORK/libraries"
	! grep -q 'not found' "$WORK/libraries" || die "a library of $2 is in none of the packages"
	awk '$2 == "=>" && $3 ~ /^\// { print $1 }' "$WORK/libraries" | while read -r name; do
		case $name in
		/*) ;;
		*) cp -L "$libs/$name" "$1/usr/lib/x86_64-linux-gnu/" ;;
		esac
	done
}

tiny_accounts() {
	cat >"$1/etc/passwd" <<-'PASSWD'
		root:x:0:0:root:/root:/bin/sh
		daemon:x:1:1:daemon:/:/bin/false
		nobody:x:65534:65534:nobody:/:/bin/false
		user:x:1000:1000:user:/home/user:/bin/sh
	PASSWD
	cat >"$1/etc/group" <<-'GROUP'
		root:x:0:
		daemon:x:1:
		tty:x:5:
		nogroup:x:65534:
		user:x:1000:
	GROUP
	printf '%s:!:19000:0:99999:7:::\n' root daemon nobody user >"$1/etc/shadow"
	chmod 600 "$1/etc/shadow"
}

tiny_settings() {
	echo tiny >"$1/etc/hostname"
	printf '127.0.0.1 localhost tiny\n::1 localhost\n' >"$1/etc/hosts"
	printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$1/etc/nsswitch.conf"
	printf 'PRETTY_NAME="moat tiny"\nNAME="tiny"\nID=tiny\n' >"$1/etc/os-release"
	printf '/bin/sh\n/bin/bash\n' >"$1/etc/shells"
	: >"$1/etc/resolv.conf"
	ln -s /proc/mounts "$1/etc/mtab"
	cat >"$1/etc/profile" <<-'PROFILE'
		export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
		[ "$(id -u)" = 0 ] && PS1='\h:\w# ' || PS1='\h:\w$ '
	PROFILE
	mkdir -p "$1/etc/acpi/PWRF"
	printf '#!/bin/sh\nexec poweroff\n' >"$1/etc/acpi/PWRF/00000080"
	chmod 755 "$1/etc/acpi/PWRF/00000080"
}

# tiny_rootfs ROOT: makes the whole tree but /home/user, which has another owner.
tiny_rootfs() {
	for dir in dev etc/init.d home proc root run sys tmp usr/local/bin usr/local/sbin \
		var/log var/tmp var/lib/misc mnt opt srv; do
		mkdir -p "$1/$dir"
	done
	ln -s ../run "$1/var/run"
	chmod 1777 "$1/tmp" "$1/var/tmp"
	chmod 700 "$1/root"
	busybox_install "$1"
	program_install "$1" usr/sbin/qemu-ga
	# shellcheck disable=SC2086 # a list of names
	modules_copy "$TOOLS/usr/lib/modules/$VERSION" "$1/usr/lib/modules/$VERSION" $TINY_MODULES
	# Checking signatures is a tenth of an emulated boot.
	find "$1/usr/lib/modules" -name '*.ko' >"$WORK/unsigned"
	while read -r module; do
		module_unsign "$module"
	done <"$WORK/unsigned"
	tiny_accounts "$1"
	tiny_settings "$1"
	cp "$HERE/tiny/inittab" "$HERE/tiny/fstab" "$HERE/tiny/mdev.conf" "$1/etc/"
	for script in boot agent ports late nic lease; do
		cp "$HERE/tiny/$script" "$1/etc/init.d/"
		chmod 755 "$1/etc/init.d/$script"
	done
	for script in sbin/shutdown sbin/adduser bin/bash; do
		rm -f "$1/usr/$script"
		cp "$HERE/tiny/${script##*/}" "$1/usr/$script"
		chmod 755 "$1/usr/$script"
	done
}
