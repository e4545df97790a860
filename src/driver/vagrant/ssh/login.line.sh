# shellcheck shell=sh
# login.line.sh SCRIPT - as whoever logged in: runs the script as root if possible, otherwise as the
# user; its $1 says which. sudo is slow in a small guest: it is not asked first whether it would. If
# it will not, or is not there, the host is told, and lets the script go on without.
# shellcheck disable=SC2034,SC2162 # the line that is read only says "go on"
if [ "$(id -u)" = 0 ]; then unset SUDO_UID; exec sh -c "$1" sh root; fi;
sudo -n sh -c "$1" sh root 2>/dev/null;
case $? in 1 | 127) unset SUDO_UID; echo moat:nosudo; read go &&
exec sh -c "$1" sh user;; esac
