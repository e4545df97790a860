#!/bin/sh
# cache.sh FROM TO - keeps downloaded packages: each appears in TO whole or not at all.

# A random name, not our pid: concurrent builds have pid namespaces of their own, and the same pids.
part=$2/.part.$(cat /proc/sys/kernel/random/uuid)
for deb in "$1"/*.deb; do
	name=${deb##*/}
	[ -e "$deb" ] || continue
	if [ -e "$2/$name" ]; then
		touch -c "$2/$name"
	else
		cp "$deb" "$part" && mv "$part" "$2/$name"
	fi
done
