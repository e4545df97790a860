# shellcheck shell=sh
# The agent starts programs with next to no environment.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH; umask 077
