/* client.h - the process that gets addresses for the machine's NICs, and keeps them. */
#pragma once

/* Runs for ever. A byte is written to told_fd whenever the number of NICs with an address changes:
 * that number. */
_Noreturn void dhcp_run(int told_fd);
