/* footprint.h - how much memory our QEMUs have really taken from the host. Any thread. */
#pragma once

/* Resident memory of all emulators below this process. */
unsigned long long footprint_qemu_mb(void);
