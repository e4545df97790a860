#!/bin/sh
# freeze.sh [thaw] - flushes and freezes the file systems that are on disks, says whether that worked,
# and lets them go again when its input ends. Only builtins of the shell and fsfreeze run meanwhile.
# thaw: lets them go, whoever froze them.
dirs="" seen=' '
while read -r device dir type options _; do
  # Names with a backslash have a space or the like in them.
  case $device:$dir in *\\*) continue ;; /dev/*) ;; *) continue ;; esac
  # FAT, as of /boot/efi, cannot be frozen; what is only read need not be. It is all flushed.
  case $type:$options in *fat:* | *:ro | *:ro,*) continue ;; esac
  case $seen in *" $device "*) continue ;; esac
  seen="$seen$device " dirs="$dir $dirs"
done </proc/mounts
thaw() {
  for dir; do fsfreeze --unfreeze "$dir"; done 2>/dev/null
}
# shellcheck disable=SC2086 # a list of names
[ "${1-}" != thaw ] || { thaw $dirs; exit; }
sync
frozen="" answer=frozen
[ -n "$dirs" ] || answer=flushed
for dir in $dirs; do
  if fsfreeze --freeze "$dir" 2>/dev/null; then frozen="$dir $frozen"
  else answer=flushed; fi
done
echo $answer
while read -r _; do :; done
# shellcheck disable=SC2086
thaw $frozen
