/* ports.h - published ports of a service. Pure. */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include "util/err.h"

/* Ports that follow each other; host 0: any that are free. */
struct port_range {
	unsigned port, host, count;
	bool udp;
	bool elsewhere; /* published at an address of the host that is not 127.0.0.1 alone */
};

/* One item of `ports`: a number, "80", "8080:80", "127.0.0.1:8080:80/tcp", "3000-3005:3000-3005",
 * or an object with target, published, protocol and host_ip. */
int port_read(const json_t *j, struct port_range *ret, struct err *e);
