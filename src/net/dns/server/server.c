#include "net/dns/server/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "net/dns/server/tcp.h"
#include "net/dns/server/udp.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/system/confine.h"
#include "util/system/io.h"
#include "util/thread/op.h"

enum {
	PORT = 53,
	BACKLOG = 16,
	ZONES_MAX = 64 << 20,   /* bytes, as the plan */
	MEMORY_MAX = 256 << 20, /* bytes. Connections by TCP need 12 MiB at most */
};

struct work {
	struct dns_server s;
	json_t *zones;
	struct dns_udp *udp;
	struct dns_tcp *tcp;
	unsigned n_listeners;
	struct confine_sockets sockets;
};

static int load_zones(struct work *w, struct err *e)
{
	auto_buf struct buf text = {0};
	struct refusals *record;
	json_t *all, *list;

	if (file_read_all(DNS_FD_ZONES, ZONES_MAX, &text, e) < 0 ||
		json_parse_object(buf_bytes(&text), &all, e) < 0 ||
		json_get(all, "zones", e, "{s:o}", "zones", &list) < 0 ||
		zones_load(list, &w->s.zones, &w->s.n_zones, e) < 0)
		return -1;
	w->zones = list;
	record = mmap(NULL, w->s.n_zones * sizeof(*record), PROT_READ | PROT_WRITE, MAP_SHARED,
		DNS_FD_REFUSALS, 0);
	if (record == MAP_FAILED)
		return err_sys(e, errno, "the record of refusals");
	for (unsigned i = 0; i < w->s.n_zones; i++) {
		refusals_mend(&record[i]); /* an earlier process may have left anything */
		w->s.zones[i].refusals = &record[i];
	}
	return 0;
}

/* The address may not be there yet: the holder makes the interfaces meanwhile. Connections that an
 * earlier process had may be there still. */
static int open_socket(int type, const char *address, int *ret, struct err *e)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	auto_fd int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof(on)) < 0 ||
		(type == SOCK_STREAM &&
			setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0) ||
		inet_pton(AF_INET, address, &at.sin_addr) != 1 ||
		bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
		(type == SOCK_STREAM && listen(fd, BACKLOG) < 0))
		return err_sys(e, errno, "DNS on %s", address);
	*ret = take_fd(&fd);
	return 0;
}

static int open_sockets(struct work *w, int type, struct err *e)
{
	json_t *zone, *address;
	size_t i, k;

	json_array_foreach(w->zones, i, zone) {
		json_array_foreach(json_object_get(zone, "listen"), k, address) {
			int fd;

			if (w->n_listeners++ == DNS_LISTENERS_MAX)
				return err_set(e, ERR_INTERNAL, "too many networks");
			if (open_socket(type, json_string_value(address), &fd, e) < 0)
				return -1;
			if (w->sockets.kept == 0)
				w->sockets.first = fd;
			else if (fd != w->sockets.kept)
				return err_set(e, ERR_INTERNAL, "sockets out of order");
			w->sockets.kept = fd + 1;
			if (type == SOCK_DGRAM)
				dns_udp_add(w->udp, fd, &w->s.zones[i]);
			else
				dns_tcp_add(w->tcp, fd, &w->s.zones[i]);
		}
	}
	w->n_listeners = 0;
	return 0;
}

static int start(struct work *w, struct err *e)
{
	/* Whatever else was left open by those before us. */
	close_range(w->s.outside < 0 ? DNS_FD_OUTSIDE : DNS_FD_OUTSIDE + 1, ~0u, 0);
	if (load_zones(w, e) < 0 || dns_udp_new(&w->s, &w->udp, e) < 0 ||
		dns_tcp_new(&w->s, &w->tcp, e) < 0 || open_sockets(w, SOCK_DGRAM, e) < 0)
		return -1;
	/* The sockets so far may send to any guest. All others send to the one at their other end.
	 */
	w->sockets.end = w->sockets.kept;
	if (open_sockets(w, SOCK_STREAM, e) < 0)
		return -1;
	/* Answers to what an earlier process has asked must not look like answers to us. */
	return getrandom(&w->s.number, sizeof(w->s.number), 0) < 0 ? err_sys(e, errno, "getrandom")
								   : 0;
}

/* The user is another one only where the holder has no user namespace. */
static int give_up_rights(const struct work *w, struct err *e)
{
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	confine_empty_root();
	confine_limits(MEMORY_MAX, 0);
	if (confine_rights(confine_id(), CONFINE_NO_GROUP) < 0 && confine_keep(NULL, 0) < 0)
		return err_sys(e, errno, "giving up rights");
	if (confine_sockets(&w->sockets) < 0)
		return err_sys(e, errno, "giving up system calls");
	return 0;
}

static int timeout_of(const struct work *w)
{
	int64_t udp = dns_udp_deadline(w->udp), tcp = dns_tcp_deadline(w->tcp), left;

	if (udp == INT64_MAX && tcp == INT64_MAX)
		return -1;
	left = (udp < tcp ? udp : tcp) - now_ns();
	return left <= 0 ? 0 : (int)(left / 1000000) + 1;
}

static int serve(struct work *w, struct err *e)
{
	static struct pollfd fds[DNS_UDP_POLL_MAX + DNS_TCP_POLL_MAX];

	if (send(DNS_FD_HOLDER, "r", 1, MSG_NOSIGNAL) < 0)
		return err_sys(e, errno, "the holder");
	for (;;) {
		unsigned n_udp = dns_udp_poll(w->udp, fds);
		unsigned n = n_udp + dns_tcp_poll(w->tcp, fds + n_udp);

		if (poll(fds, n, timeout_of(w)) < 0 && errno != EINTR)
			return err_sys(e, errno, "poll");
		dns_udp_serve(w->udp, fds);
		dns_tcp_serve(w->tcp, fds + n_udp);
	}
}

int dns_server_main(int argc, char **argv)
{
	struct work w = {.s = {.holder = DNS_FD_HOLDER, .outside = DNS_FD_OUTSIDE}};
	struct err e;

	(void)argv;
	if (argc != 2 || fcntl(DNS_FD_HOLDER, F_GETFD) < 0) {
		fprintf(stderr, "moat-helper net-dns is internal to moat\n");
		return 2;
	}
	prctl(PR_SET_NAME, "net-dns");
	if (fcntl(DNS_FD_OUTSIDE, F_GETFD) < 0)
		w.s.outside = -1;
	if (start(&w, &e) == 0 && give_up_rights(&w, &e) == 0)
		serve(&w, &e);
	fprintf(stderr, "moat-helper net-dns: %s\n", e.msg);
	/* No exit handlers: a leak checker would want to start a thread. */
	_exit(1);
}
