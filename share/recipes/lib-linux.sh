# shellcheck shell=sh
# lib-linux.sh - kernels, kernel modules and initramfs archives for the recipes. Sourced after lib.sh.

# Debian's cloud kernel would be smaller, but it has no AHCI, no e1000 and no VM generation id.
KERNEL_META=linux-image-amd64

# For every kernel here. quiet: a serial console is slow, and errors get through. panic: a dead kernel
# starts again instead of hanging. cryptomgr: its self-tests take a quarter of an emulated boot.
# no_timer_check: on a busy host an emulated timer's ticks come late, and a kernel that counts them
# takes the timer for broken and panics.
# shellcheck disable=SC2034 # used by lib-tiny.sh and lib-debian.sh
LINUX_CMDLINE='console=ttyS0 quiet panic=-1 cryptomgr.notests no_timer_check'

# Kernels that must not be used: ext4 in 6.1.192-1 crashes as soon as memory was short once (a null pointer in
# ext4_mb_load_buddy_gfp).
KERNELS_BROKEN=' linux-image-6.1.0-55-amd64 '

# The package that really holds the kernel: the metapackage depends on it by version. If
# that version is broken, the last one before it.
kernel_package() {
	newest=$(apt_tool apt-cache depends "$KERNEL_META" | awk '/Depends: linux-image-[0-9]/ { print $2; exit }')
	case $KERNELS_BROKEN in
	*" $newest "*) ;;
	*) echo "$newest" && return ;;
	esac
	series=${newest%-*-amd64}
	apt_tool apt-cache pkgnames "$series-" | grep -E "^$series-[0-9]+-amd64\$" | sort -V |
		awk -v broken="$KERNELS_BROKEN" 'index(broken, " " $0 " ") { next } { last = $0 } END { print last }'
}

le() { # le WIDTH OFFSET FILE: a little-endian unsigned number
	od -An -v -t "u$1" -j "$2" -N "$1" "$3" | tr -d ' '
}

# The ELF kernel inside a bzImage. QEMU enters it through PVH, which skips the boot loader and the
# decompressor. Offsets are those of the x86 boot protocol header. Fails where there is none.
vmlinux_extract() {
	bzimage=$1
	vmlinux=$2
	sectors=$(le 1 497 "$bzimage")
	[ "$sectors" -ne 0 ] || sectors=4
	start=$(((sectors + 1) * 512 + $(le 4 584 "$bzimage")))
	length=$(($(le 4 588 "$bzimage") - 4)) # the last word is the unpacked size
	tail -c +$((start + 1)) "$bzimage" | head -c "$length" >"$WORK/payload"
	case $(od -An -v -t x1 -N 4 "$WORK/payload" | tr -d ' ') in
	fd377a58) set -- xz ;;
	28b52ffd) set -- zstd ;;
	1f8b*) set -- gzip ;;
	*) return 1 ;;
	esac
	command -v "$1" >/dev/null || return 1
	"$1" -dc <"$WORK/payload" >"$vmlinux" || return 1
	rm -f "$WORK/payload"
	[ "$(od -An -v -t x1 -N 4 "$vmlinux" | tr -d ' ')" = 7f454c46 ]
}

# kernel_files FROM TO: TO/vmlinuz and, when the kernel can be entered so, TO/vmlinux.
# Sets KERNEL to the one that starts faster.
# shellcheck disable=SC2034
kernel_files() {
	cp "$1"/vmlinuz-* "$2/vmlinuz"
	KERNEL=vmlinuz
	if grep -q '^CONFIG_PVH=y' "$1"/config-* && vmlinux_extract "$2/vmlinuz" "$2/vmlinux"; then
		KERNEL=vmlinux
	else
		rm -f "$2/vmlinux"
		echo "no PVH kernel in here: using the bzImage"
	fi
	chmod 644 "$2"/vmlin*
}

# modules_copy FROM TO NAME...: the modules with all they depend on, uncompressed, and their index.
# FROM and TO are kernel version directories (.../lib/modules/VERSION). Names that this kernel does
# not have are skipped: built in, or of another version.
modules_copy() {
	modules_from=$1
	modules_to=$2
	shift 2
	mkdir -p "$modules_to"
	[ -f "$modules_from/modules.dep" ] || depmod_run "$modules_from"
	for name in "$@"; do
		awk -v name="$name" 'BEGIN { gsub(/[-_]/, "[-_]", name); re = "/" name "[.]ko([.][a-z]+)?:$" }
			$1 ~ re { sub(/:/, ""); print }' "$modules_from/modules.dep"
	done | tr ' ' '\n' | sort -u >"$WORK/modules"
	while read -r path; do
		mkdir -p "$modules_to/${path%/*}"
		case $path in
		*.xz) xz -dc "$modules_from/$path" >"$modules_to/${path%.xz}" ;;
		*.zst) zstd -q -dc "$modules_from/$path" >"$modules_to/${path%.zst}" ;;
		*) cp "$modules_from/$path" "$modules_to/$path" ;;
		esac
	done <"$WORK/modules"
	cp "$modules_from"/modules.order "$modules_from/modules.builtin" "$modules_to/"
	depmod_run "$modules_to"
}

# module_unsign FILE: removes the signature, which a kernel checks but does not require.
# Behind the module come the signature, twelve bytes of which the last four are its length, and a mark.
module_unsign() {
	[ "$(tail -c 28 "$1")" = '~Module signature appended~' ] || return 0
	length=0
	for byte in $(tail -c 32 "$1" | od -An -v -t u1 -N 4); do
		length=$((length * 256 + byte))
	done
	truncate -s "-$((length + 12 + 28))" "$1"
}

# busybox has a depmod: the host need not.
depmod_run() {
	guard "$TOOLS/bin/busybox" depmod -b "${1%/lib/modules/*}" "${1##*/}"
}

# busybox_install DIR: the static busybox and a link for each of its applets.
busybox_install() {
	merged_usr "$1"
	cp "$TOOLS/bin/busybox" "$1/bin/busybox"
	for applet in $("$1/bin/busybox" --list-full); do
		[ "$applet" = bin/busybox ] || ln -sf /bin/busybox "$1/$applet"
	done
}

# cpio_pack DIR OWNER [START]: a reproducible archive of DIR, or of START in it, on stdout.
cpio_pack() {
	find "$1" -exec touch -h -d "@$EPOCH" {} +
	(cd "$1" && find "${3:-.}" | sort | cpio --quiet --reproducible -o -H newc -R "$2")
}
