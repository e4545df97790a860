# shellcheck shell=sh
# root.sh - the partition of a disk that has the root file system: found, measured, made larger, made
# anew. Sourced after lib.sh, in the directory that has disk.raw.

# confined NAME COMMAND...: as moat confines what handles foreign images (NAME: image), or files of
# all users (files). The disk may have been made to do harm. The command has it open as fd 4, and
# nothing else of the host's files. Where we are root it is another user: that is why all may read and
# write the disk, in a directory that is closed to others.
DISK=/proc/self/fd/4
confined() {
	confined_as=$1
	shift
	chmod 666 disk.raw
	guard "$MOAT_HELPER" guard --confine "$confined_as" - -- "$@" 3>&- 4<>disk.raw
}

# Labels of root file systems, in Debian's, Ubuntu's and our own images.
ROOT_LABELS='root cloudimg-rootfs'

# "NUMBER START SIZE" of each partition, in sectors.
partitions() {
	confined image sfdisk --dump "$DISK" 2>/dev/null |
		sed -n 's|^/proc/self/fd/4p\([0-9]*\) : start= *\([0-9]*\), size= *\([0-9]*\).*|\1 \2 \3|p'
}

# is_ext4 START: at that byte. Its magic number is at 1080.
is_ext4() {
	[ "$(od -A n -t x1 -j $(($1 + 1080)) -N 2 disk.raw | tr -d ' ')" = 53ef ]
}

# super NAME: a line of dumpe2fs, which lists the superblock.
super() {
	confined image dumpe2fs -h "$DISK?offset=$ROOT_START" 2>/dev/null | sed -n "s/^$1:[[:space:]]*//p"
}

# number NAME: that line of the superblock. Labels are raw there, and may look like other lines. What
# is no number must not reach the shell's arithmetic: some shells run commands in it.
number() {
	value=$(super "$1")
	case $value in
	'' | *[!0-9]*) die "the superblock of the base is damaged" ;;
	esac
	echo "$value"
}

# Sets ROOT_NUMBER (0: the disk has no partitions), ROOT_START and ROOT_SIZE in bytes: the file
# system with the label of one, or else the largest.
root_find() {
	ROOT_NUMBER='' ROOT_START='' ROOT_SIZE=0
	if is_ext4 0; then
		ROOT_NUMBER=0 ROOT_START=0 ROOT_SIZE=$(stat -c %s disk.raw)
		return
	fi
	partitions >table
	best=0
	while read -r number start size; do
		is_ext4 $((start * 512)) || continue
		before=$ROOT_START
		ROOT_START=$((start * 512))
		label=$(super 'Filesystem volume name')
		case " $ROOT_LABELS " in
		*" $label "*) rank=$((size + (1 << 50))) ;;
		*) rank=$size ;;
		esac
		if [ "$rank" -gt "$best" ]; then
			best=$rank ROOT_NUMBER=$number ROOT_SIZE=$((size * 512))
		else
			ROOT_START=$before
		fi
	done <table
	[ -n "$ROOT_NUMBER" ] || die "the base has no ext4 file system on its disk"
	# A table can claim more than there is.
	size=$(($(stat -c %s disk.raw) - ROOT_START))
	[ "$ROOT_SIZE" -le "$size" ] || ROOT_SIZE=$size
}

root_used_mb() {
	blocks=$(number 'Block count')
	free=$(number 'Free blocks')
	size=$(number 'Block size')
	echo $(((blocks - free) * size >> 20))
}

# disk_grow MB: the disk, and the partition with it, which must be the last one. Sets ROOT_SIZE.
disk_grow() {
	truncate -s "$1M" disk.raw
	ROOT_SIZE=$((($1 << 20) - ROOT_START))
	[ "$ROOT_NUMBER" -ne 0 ] || return 0
	while read -r _ start _; do
		[ $((start * 512)) -le "$ROOT_START" ] ||
			die "the disk cannot grow: there is a partition behind the root file system"
	done <table
	# A GPT has its second half at the end of the disk.
	! confined image sfdisk --dump "$DISK" | grep -q '^label: gpt' ||
		confined image sfdisk -q --relocate gpt-bak-std "$DISK"
	echo ', +' | confined image sfdisk -q --no-reread --no-tell-kernel -N "$ROOT_NUMBER" "$DISK"
	partitions >table
	while read -r number _ size; do
		[ "$number" -ne "$ROOT_NUMBER" ] || ROOT_SIZE=$((size * 512))
	done <table
}

# Features that a boot loader or an older kernel may not know are not added: the new file system has
# those of the old one.
root_features() {
	for feature in $(super 'Filesystem features'); do
		case $feature in
		has_journal | ext_attr | resize_inode | dir_index | filetype | extent | 64bit | flex_bg | \
			sparse_super | large_file | huge_file | dir_nlink | extra_isize | metadata_csum | \
			metadata_csum_seed | orphan_file | uninit_bg | inline_data | quota | project)
			printf ',%s' "$feature"
			;;
		esac
	done
}

# root_make TREE: the file system anew, from the tree, under the same names.
root_make() {
	features=$(root_features)
	label=$(super 'Filesystem volume name' | head -n 1)
	[ "$label" != '<none>' ] || label=
	block_size=$(number 'Block size')
	inode_size=$(number 'Inode size')
	uuid=$(super 'Filesystem UUID')
	case $uuid in
	'' | *[!0-9a-f-]*) die "the superblock of the base is damaged" ;;
	esac
	journal=$(super 'Total journal size' | sed -n 's/^\([0-9]*\)M$/\1/p')
	case $journal in
	*[!0-9]*) die "the superblock of the base is damaged" ;;
	esac
	options="offset=$ROOT_START,root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0,nodiscard"
	root_tree=$1
	set -- -d /proc/self/fd/5 -O "none$features" -b "$block_size" -I "$inode_size" \
		-U "$uuid" -L "$label" -m 1 -E "$options"
	[ -z "$journal" ] || set -- -J "size=$journal" "$@"
	# What was there before must not shine through.
	guard fallocate --punch-hole --offset "$ROOT_START" --length "$ROOT_SIZE" disk.raw
	confined files mke2fs -q -F -t ext4 "$@" "$DISK" "$((ROOT_SIZE >> 10))K" 5<"$root_tree"
}

# root_devices FILE TREE: makes the device files again that moat-disk listed: MAJOR MINOR MODE UID GID
# PATH. A step may have removed the directory: then debugfs would make them where it is.
root_devices() {
	while read -r major minor mode uid gid path; do
		# moat-disk has read a foreign disk: see number.
		case $major.$minor.$mode.$uid.$gid in
		*[!0-9.]*) continue ;;
		esac
		[ -d "$2${path%/*}" ] || continue
		kind=c
		[ $((0$mode & 0170000)) -ne $((060000)) ] || kind=b
		printf 'cd %s\nmknod %s %s %d %d\nsif %s mode 0%s\nsif %s uid %d\nsif %s gid %d\n' "${path%/*}/" \
			"${path##*/}" "$kind" "$major" "$minor" "$path" "$mode" "$path" "$uid" "$path" "$gid"
	done <"$1" >devices.debugfs
	[ ! -s devices.debugfs ] ||
		confined image debugfs -w -f - "$DISK?offset=$ROOT_START" <devices.debugfs >/dev/null
}
