# shellcheck shell=sh
# Where programs may usually be run from; /tmp is often mounted noexec.
# shellcheck disable=SC2034 # for those who include this
places='/var/lib/moat /usr/local/lib/moat /tmp /dev/shm /root'
