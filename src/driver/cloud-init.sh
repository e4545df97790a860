#!/bin/sh
# cloud-init.sh - waits for cloud-init. Ends with 3 if there is none, and with 1 if it failed or has no
# data; then it prints why.
command -v cloud-init >/dev/null || exit 3
said=$(cloud-init status --wait --long 2>&1)
code=$?
case $code:$said in
0:*disabled*) said="it is disabled in the guest" ;;
0:* | 2:*) exit 0 ;; # 2: it finished, and warns
esac
printf '%s\n' "$said" | tr -s '.\n' '. ' | cut -c 1-300
tail -n 3 /var/log/cloud-init-output.log 2>/dev/null | tr '\n' ' ' | cut -c 1-400
exit 1
