/* boot.h - from the kernel's first process to a system with a root disk. */
#pragma once

/* Mounts what containers have, loads drivers, and makes the disk the root. Returns an fd of the
 * runner's program, which has no path any more, or -1 after it has said why. */
int boot(void);
