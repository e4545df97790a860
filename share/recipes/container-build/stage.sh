# shellcheck shell=sh
# stage.sh WORK STORAGE KEEP_MB - the part of a build that is root, of a user namespace. fd 3 takes
# progress lines. buildah finds the marks of a namespace that it would have made itself: so it keeps
# to what is possible in one.
work=$1
storage=$2
keep_mb=$3
umask 022
export HOME="$work" TMPDIR="$work/tmp" XDG_RUNTIME_DIR="$work/run"
export _CONTAINERS_USERNS_CONFIGURED="done" _CONTAINERS_ROOTLESS_UID=0
PATH=$PATH:/usr/sbin:/sbin
cd "$work" || exit
mkdir -p tmp run context
# Root in RUN can leave the image by chroot(2), a right that package managers need. So around the
# image there are only programs, what they must know, and what belongs to builds.
leave_host() {
	root=$work/root
	mkdir "$root"
	mount -t tmpfs -o mode=755 moat "$root"
	for dir in /usr /bin /sbin /lib /lib32 /lib64 /libx32; do
		if [ -L "$dir" ]; then
			cp -P "$dir" "$root$dir"
		elif [ -d "$dir" ]; then
			mkdir "$root$dir"
			mount --rbind "$dir" "$root$dir"
		fi
	done
	mkdir -p "$root/etc" "$root/var/tmp" "$root/tmp" "$root/run" "$root/old" "$root$work" "$root$storage"
	for file in resolv.conf hosts nsswitch.conf passwd group localtime ld.so.cache gai.conf; do
		[ ! -e "/etc/$file" ] || cp -L "/etc/$file" "$root/etc/$file"
	done
	for dir in /etc/containers /etc/alternatives /etc/ssl/certs /etc/pki /etc/ca-certificates /proc /sys /dev; do
		if [ -d "$dir" ]; then
			mkdir -p "$root$dir"
			mount --rbind "$dir" "$root$dir"
		fi
	done
	mount --bind "$work" "$root$work"
	mount --bind "$storage" "$root$storage"
	cd "$root" || exit
	pivot_root . old
	cd /
	umount -l /old
	rmdir /old
	cd "$work" || exit
}
leave_host

die() {
	printf '%s\n' "$*" >&2
	exit 1
}

# store DRIVER COMMAND...: each driver has a store of its own.
store() {
	driver=$1
	command=$2
	shift 2
	buildah --storage-driver "$driver" --root "$storage/$driver" --runroot "$work/run/$driver" \
		--registries-conf "$work/registries.conf" "$command" "$@" </dev/null
}

driver=overlay
store overlay info >/dev/null 2>&1 || driver=vfs
# A build that was killed has left its containers.
store "$driver" rm --all >/dev/null 2>&1 || true

echo 'progress 0 0 reading the files' >&3
tar -x -f context.tar -C context --no-same-owner
rm -f context.tar

set -- --isolation chroot --format docker --layers --iidfile "$work/iid" -f "$work/Dockerfile"
[ ! -e auth.json ] || set -- "$@" --authfile "$work/auth.json"
[ ! -s target ] || set -- "$@" --target "$(cat target)"
[ ! -e anew ] || set -- "$@" --no-cache
while IFS= read -r line; do
	set -- "$@" --build-arg "$line"
done <args

# Each line goes to the log; those that begin a step are told.
tell() {
	while IFS= read -r line || [ -n "$line" ]; do
		printf '%s\n' "$line" >&2
		case $line in
		'STEP '[0-9]*/[0-9]*': '* | '['[0-9]*'] STEP '[0-9]*/[0-9]*': '*)
			step=${line#*STEP }
			text=${step#*: }
			step=${step%%:*}
			done=${step%/*}
			total=${step#*/}
			case $done$total in
			*[!0-9]*) ;;
			*) printf 'progress %d %d %s\n' "$((done - 1))" "$total" "$text" >&3 ;;
			esac
			;;
		esac
	done
}

rm -f code
{
	store "$driver" bud "$@" "$work/context" 2>&1 && code=0 || code=$?
	echo "$code" >code
} | tee said | tell
code=$(cat code)
if [ "$code" -ne 0 ]; then
	why=$(grep -a -i -E '^error' said | tail -n 1)
	store "$driver" rm --all >/dev/null 2>&1 || true
	why=${why:-$(grep -a . said | tail -n 1)}
	why=${why#Error: }
	version=$(buildah --version | sed 's/^buildah version \([0-9]*\)[.]\([0-9]*\).*/\1 \2/')
	if grep -q -E '^[[:space:]]*(RUN|COPY|ADD|run|copy|add)[[:space:]].*<<' Dockerfile &&
		[ "${version% *}" -eq 1 ] && [ "${version#* }" -lt 33 ]; then
		why="buildah 1.${version#* } of this machine knows no here-documents (<<), which buildah has since 1.33: $why"
	fi
	die "$why"
fi

echo 'progress 0 0 writing the container image' >&3
store "$driver" push --quiet --format v2s2 "$(cat iid)" "dir:$work/image" >&2
store "$driver" rm --all >/dev/null 2>&1 || true
used_mb=$(du -sm "$storage" | cut -f 1)
[ "$used_mb" -le "$keep_mb" ] || rm -rf "${storage:?}/overlay" "${storage:?}/vfs"
rm -rf context tmp run
