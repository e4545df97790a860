#!/bin/sh
# put-files.sh ARCHIVE - unpacks a cpio archive onto the root file system of the only disk. It runs in
# a VM of the image "tiny", which has that disk and nothing else: whatever is on it can hurt this
# VM alone.
die() {
  echo "$1" >&2
  exit 1
}
modprobe -a virtio_blk ext4 2>/dev/null
root="" seen=""
for device in /dev/vda[0-9]* /dev/vda; do
  [ -b "$device" ] || continue
  # A look that changes nothing; the journal is not replayed.
  mount -t ext4 -o ro,noload "$device" /mnt 2>/dev/null || continue
  seen="$seen $device"
  [ ! -e /mnt/etc/passwd ] || root=$device
  umount /mnt
  [ -z "$root" ] || break
done
[ -n "$root" ] ||
  die "no partition of the disk has a Linux system on ext4 (file systems like that:${seen:- none})"
mount -t ext4 "$root" /mnt || die "its root file system cannot be mounted"
# Links on the disk lead where they lead in its own system: so it is unpacked in there. What is
# needed for that is in memory.
[ -d /mnt/dev ] || mkdir /mnt/dev || die "its root file system has no /dev"
mount -t tmpfs none /mnt/dev || die "no memory"
{ cp /bin/busybox /mnt/dev/busybox && mv "$1" /mnt/dev/archive; } || die "no memory"
umask 022
said=$(chroot /mnt /dev/busybox cpio -idmu -F /dev/archive 2>&1) ||
  die "${said##*
}"
{ umount /mnt/dev && umount /mnt; } || die "its root file system cannot be unmounted"
sync
