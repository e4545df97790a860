#!/bin/sh
# settle.sh - waits in a new template until cloud-init is done, and removes the identity of the
# machine, so that each clone gets one of its own. Exits as cloud-init does.
cloud-init status --wait >/dev/null
rc=$?
: >/etc/machine-id
rm -f /var/lib/dbus/machine-id
sync
exit $rc
