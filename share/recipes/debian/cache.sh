#!/bin/sh
# cache.sh FROM TO - keeps downloaded packages: each appears in TO whole or not at all.

for deb in "$1"/*.deb; do
	name=${deb##*/}
	[ -e "$deb" ] || continue
	if [ -e "$2/$name" ]; then
		touch -c "$2/$name"
	else
		cp "$deb" "$2/.part.$$" && mv "$2/.part.$$" "$2/$name"
	fi
done
