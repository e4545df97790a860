/* dhcp.h - becomes dnsmasq, with fewer rights than the holder that starts it: `moat-helper net-dhcp
 * PROGRAM ARGUMENTS...`. */
#pragma once

/* Returns the exit status if there is no such program, or if it would have rights over networks. */
int dhcp_main(int argc, char **argv);
