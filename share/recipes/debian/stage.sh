#!/bin/sh
# stage.sh NAME CODENAME MODULES WORK CACHE DISK_MB - the part of a Debian build that needs to be
# root: runs in namespaces of its own. Packages are installed into a tmpfs, so that whatever becomes
# of this process, no file that belongs to another user id is left behind.
# shellcheck source-path=SCRIPTDIR/..
HERE=$(dirname "$0")/..
. "$HERE/lib.sh"
. "$HERE/lib-disk.sh"

NAME=$1
CODENAME=$2
MODULES=$3
WORK=$4
CACHE=$5
DISK_MB=$6
ROOT=$WORK/fs/root

PACKAGES=systemd-sysv,dbus,udev,kmod,qemu-guest-agent,python3,sudo,iproute2,procps
PACKAGES=$PACKAGES,openssh-server,ca-certificates,bash,coreutils,tar,gzip,xz-utils,curl,less
PACKAGES=$PACKAGES,vim-tiny,netcat-openbsd,iputils-ping,cloud-init
PACKAGES=$PACKAGES${DEBIAN_MORE_PACKAGES:+,$DEBIAN_MORE_PACKAGES} # of another recipe

mkdir -p "$WORK/fs"
mount -t tmpfs -o mode=755,size=90% moat "$WORK/fs"

# What the cache has is not downloaded: apt checks each file against the signed index.
packages_install() {
	# shellcheck disable=SC2016 # expanded by the hooks' shells
	SOURCE_DATE_EPOCH=$EPOCH TMPDIR=$WORK/fs CACHE=$CACHE mmdebstrap \
		--mode=root --variant=minbase --format=directory --include="$PACKAGES" \
		--skip=download/empty --skip=essential/unlink --skip=check/qemu \
		--aptopt='APT::Sandbox::User "root"' --aptopt='Acquire::Retries "3"' \
		--aptopt='Acquire::http::Timeout "30"' --aptopt='Acquire::Languages "none"' \
		--aptopt="$WORK/proxies" \
		--dpkgopt=path-exclude='/usr/share/doc/*' --dpkgopt=path-include='/usr/share/doc/*/copyright' \
		--dpkgopt=path-exclude='/usr/share/man/*' --dpkgopt=path-exclude='/usr/share/info/*' \
		--dpkgopt=path-exclude='/usr/share/locale/*' --dpkgopt=path-exclude='/usr/share/lintian/*' \
		--dpkgopt=force-unsafe-io \
		--setup-hook='mkdir -p "$1/var/cache/apt/archives/partial"' \
		--setup-hook='find "$CACHE/debs" -name "*.deb" ! -name "linux-image-*" \
			-exec cp -t "$1/var/cache/apt/archives" {} +' \
		--essential-hook='echo "progress 4 9 installing packages" >&3' \
		--customize-hook='sh "'"$HERE"'/debian/cache.sh" "$1/var/cache/apt/archives" "$CACHE/debs"' \
		"$CODENAME" "$ROOT" "$WORK/sources.list"
}

tree_copy() {
	(cd "$1" && tar -c --owner=0 --group=0 -f - .) | tar -x -f - -C "$2" --keep-directory-symlink
}

users_make() {
	chroot "$ROOT" useradd -m -u 1000 -U -s /bin/bash -G sudo user
	chroot "$ROOT" usermod -p '*' root # no password opens it; sudo and su from root do
	chroot "$ROOT" usermod -p '*' user
	chmod 440 "$ROOT/etc/sudoers.d/user"
	chmod 755 "$ROOT/usr/local/lib/resolv-conf"
}

units_set() {
	chroot "$ROOT" systemctl --quiet enable systemd-networkd qemu-guest-agent ssh \
		resolv-conf.path resolv-conf.service
	for unit in ${DEBIAN_MORE_UNITS:-}; do
		chroot "$ROOT" systemctl --quiet enable "$unit"
	done
	while read -r unit; do
		case $unit in
		'' | '#'*) ;;
		*) ln -sf /dev/null "$ROOT/etc/systemd/system/$unit" ;;
		esac
	done <"$HERE/debian/masked"
	ln -sf multi-user.target "$ROOT/usr/lib/systemd/system/default.target"
	# Generators for hardware and settings that the image does not have: a process each, at every boot.
	mkdir -p "$ROOT/etc/systemd/system-generators"
	# The initramfs starts cloud-init (boot/init).
	ln -sf /dev/null "$ROOT/etc/systemd/system-generators/cloud-init-generator"
	for generator in bless-boot cryptsetup getty gpt-auto hibernate-resume integritysetup rc-local \
		ssh system-update sysv tpm2 veritysetup; do
		ln -sf /dev/null "$ROOT/etc/systemd/system-generators/systemd-$generator-generator"
	done
}

# Removes what must not be the same in two machines, what came from the host, and what is not needed.
traces_remove() {
	: >"$ROOT/etc/machine-id"
	rm -f "$ROOT"/var/lib/dbus/machine-id "$ROOT"/etc/ssh/ssh_host_* "$ROOT"/var/lib/systemd/random-seed
	rm -f "$ROOT"/etc/apt/apt.conf.d/99mmdebstrap "$ROOT"/var/lib/dpkg/*-old "$ROOT"/etc/*-
	rm -rf "$ROOT"/var/cache/apt/* "$ROOT"/var/cache/debconf/*-old "$ROOT"/var/lib/apt/lists/*
	find "$ROOT/var/log" -type f -delete
	rm -f "$ROOT/etc/resolv.conf"
	: >"$ROOT/etc/resolv.conf"
	echo "$NAME" >"$ROOT/etc/hostname"
	printf '127.0.0.1 localhost\n127.0.1.1 %s\n::1 localhost ip6-localhost ip6-loopback\n' "$NAME" \
		>"$ROOT/etc/hosts"
	# A mirror's address may carry the password of whoever built this.
	find "$ROOT/etc/apt" -name '*.list' -exec sed -i 's,//[^/@ ]*@,//,' {} +
}

# Try again with the packages downloaded so far: mirrors fail now and then, and mmdebstrap does not try again.
packages_retry() {
	sh "$HERE/debian/cache.sh" "$ROOT/var/cache/apt/archives" "$CACHE/debs"
	rm -rf "$ROOT"
	packages_install
}

packages_install || packages_retry ||
	die "installing Debian packages failed: no network, the mirror fails, or the memory is full"
echo 'progress 5 9 configuring' >&3
tree_copy "$HERE/debian/overlay" "$ROOT"
[ -z "${DEBIAN_MORE_FILES:-}" ] || tree_copy "$DEBIAN_MORE_FILES" "$ROOT"
mkdir -p "$ROOT/usr/lib/modules"
cp -r "$MODULES" "$ROOT/usr/lib/modules/"
# With /proc: some tools of newer releases complain without it.
mount -t proc proc "$ROOT/proc"
chroot "$ROOT" depmod "${MODULES##*/}" # kmod's own index; busybox writes none that it reads
users_make
units_set
umount "$ROOT/proc"
traces_remove
echo 'progress 6 9 making the file system' >&3
ext4_make "$WORK/disk.raw" "$DISK_MB" "$ROOT" 128
