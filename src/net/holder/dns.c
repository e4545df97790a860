#include "net/holder/dns.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "net/dns/asks.h"
#include "net/dns/server/server.h"
#include "net/holder/egress.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/json.h"

#define START_SECONDS 60

/* Guests can make the process fill its record, but nobody can make the memory smaller: we read it.
 */
static int make_record(struct holder_dns *d, int *ret_fd, struct err *e)
{
	off_t size = (off_t)(d->n_zones * sizeof(*d->record));
	auto_fd int fd = memfd_create("refusals", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p;

	if (fd < 0 || ftruncate(fd, size) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return err_sys(e, errno, "memory");
	p = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return err_sys(e, errno, "memory");
	d->record = p;
	*ret_fd = take_fd(&fd);
	return 0;
}

static int zones_file(json_t *list, int *ret_fd, struct err *e)
{
	auto_json json_t *all = NULL;
	auto_free char *text = NULL;

	if (json_make(&all, e, "{s:O}", "zones", list) < 0 || json_to_str(all, &text, e) < 0)
		return -1;
	return file_in_memory("zones", text, strlen(text), ret_fd, e);
}

static bool leads_out(const struct holder_dns *d)
{
	for (unsigned i = 0; i < d->n_zones; i++)
		if (d->zones[i].has_egress)
			return true;
	return false;
}

/* All that it needs stays open here: it may have to be started again. */
static int start_process(struct holder *h, json_t *list, struct err *e)
{
	struct holder_dns *d = &h->dns;
	struct child *c = &h->children[h->n_children];
	int pair[2], zones, record;

	if (h->n_children == HOLDER_CHILDREN_MAX)
		return err_set(e, ERR_INTERNAL, "too many programs");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, errno, "socketpair");
	d->fd = pair[0];
	if (make_record(d, &record, e) < 0 || zones_file(list, &zones, e) < 0)
		return -1;
	*c = (struct child){.what = "DNS",
		.is_own = true,
		.netns = h->netns,
		.log_fd = h->log[1],
		.proc = PROC_NONE,
		.fds = {{zones, DNS_FD_ZONES}, {record, DNS_FD_REFUSALS}, {pair[1], DNS_FD_HOLDER},
			{h->outside, DNS_FD_OUTSIDE}},
		.n_fds = leads_out(d) ? 4 : 3};
	strv_add_all(&c->argv, "moat-helper", "net-dns", h->stamp, NULL);
	if (strv_check(&c->argv, e) < 0 || child_start(c, e) < 0)
		return -1;
	d->child = h->n_children++;
	return 0;
}

int dns_start(struct holder *h, struct err *e)
{
	json_t *list = json_object_get(h->plan, "dns");

	if (zones_load(list, &h->dns.zones, &h->dns.n_zones, e) < 0)
		return -1;
	return h->dns.n_zones ? start_process(h, list, e) : 0;
}

int dns_wait(struct holder *h, struct err *e)
{
	struct pollfd fds[] = {{.fd = h->dns.fd, .events = POLLIN}, {.events = POLLIN}};
	struct op op = op_for_cleanup(START_SECONDS);

	if (h->dns.fd < 0)
		return 0;
	fds[1].fd = h->children[h->dns.child].proc.pidfd;
	if (op_wait_fds(&op, fds, 2, e) < 0)
		return err_wrap(e, "DNS");
	if (!fds[0].revents)
		return err_set(e, ERR_BACKEND, "DNS ended at once");
	dns_serve(h);
	return 0;
}

static bool is_host(void *arg, uint32_t addr)
{
	return hostaddr_has(arg, addr);
}

static enum ask_verdict judge(struct holder *h, const struct ask_open *ask)
{
	const struct zone *z = &h->dns.zones[ask->zone];
	struct err e;

	if (!zone_accepts(z, ask->addrs, ask->n, is_host, &h->hosts))
		return ASK_FORBIDDEN;
	if (!ask->n_open)
		return ASK_DONE;
	if (!z->set ||
		egress_open_addresses(h, z->set, ask->addrs, ask->n_open, ask->seconds, &e) < 0)
		return ASK_FAILED;
	return ASK_DONE;
}

void dns_serve(struct holder *h)
{
	static uint8_t data[sizeof(struct ask_open) + 1]; /* one more, to see what is too long */
	static struct ask_open ask;
	ssize_t n = recv(h->dns.fd, data, sizeof(data), MSG_DONTWAIT);
	struct ask_opened said;

	if (n <= 0 || !ask_open_parse((struct bytes){data, (size_t)n}, h->dns.n_zones, &ask))
		return; /* that it is ready, or nothing that we know */
	said = (struct ask_opened){ask.number, judge(h, &ask)};
	/* Whoever does not take its answers gets none. */
	(void)!send(h->dns.fd, &said, sizeof(said), MSG_DONTWAIT | MSG_NOSIGNAL);
}

json_t *dns_refusals(const struct holder *h)
{
	json_t *all = json_array();

	for (unsigned i = 0; all && i < h->dns.n_zones; i++) {
		if (refusals_list(&h->dns.record[i], h->dns.zones[i].vnet, all) == 0)
			continue;
		json_decref(all);
		all = NULL;
	}
	return all;
}
