/* nic.h - the kernel's side of a NIC: its addresses and routes. */
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NICS_MAX = 32, SERVER_PORT = 67 };

struct nic_state {
	char name[IFNAMSIZ];
	int index;
	uint8_t mac[6];
	bool up, plugged; /* plugged: there is a carrier */
};

/* The NICs that the machine has, not those that somebody has made inside it. Returns how many. */
unsigned nics_find(int sock, struct nic_state ret[NICS_MAX]);
void nic_up(int sock, const char *name);
/* All but the address 0 also needs a mask. */
int nic_address(int sock, const char *name, uint32_t address, uint32_t mask);
int nic_default_route(int sock, const char *name, uint32_t router, bool add);
/* A socket for DHCP on that NIC; -1 with errno. */
int nic_socket(const char *name);
/* Sends to all in that network, from no address: with a socket of IP the kernel would put in one of
 * another NIC, and whoever looks at addresses would drop that. 0, or -1 with errno. */
int nic_broadcast(int index, const void *data, size_t len);
/* Readable whenever a NIC has changed; -1 with errno. */
int nic_events(void);
