/* What a holder is asked for. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "net/holder-state.h"
#include "net/msg.h"
#include "net/netns.h"
#include "util/auto.h"
#include "util/json.h"

#define LEASES_MAX (4u << 20)

struct tap {
	const char *name;
	int fd;
};

static int open_tap(void *arg, struct err *e)
{
	struct tap *tap = arg;
	struct ifreq ifr = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
	auto_fd int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return err_sys(e, errno, "/dev/net/tun");
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", tap->name);
	if (ioctl(fd, TUNSETIFF, &ifr) < 0)
		return err_sys(e, errno, "tap %s", tap->name);
	tap->fd = take_fd(&fd);
	return 0;
}

static int answer_tap(struct holder *h, json_t *args, int *ret_fd, struct err *e)
{
	struct tap tap = {.fd = -1};

	if (json_get(args, "tap", e, "{s:s}", "name", &tap.name) < 0 ||
		netns_run(h->netns, open_tap, &tap, NULL, e) < 0)
		return -1;
	*ret_fd = tap.fd;
	return 0;
}

static int add_leases(struct holder *h, json_t *show, struct err *e)
{
	json_t *all = json_object();

	if (!all || json_object_set_new(show, "leases", all) < 0)
		return err_oom(e);
	for (unsigned i = 0; i < h->n_leases; i++) {
		auto_buf struct buf text = {0};
		auto_free char *s = NULL;

		if (net_memfd_read(h->leases[i].fd, LEASES_MAX, &text, e) < 0)
			return -1;
		s = buf_take_str(&text);
		if (!s || json_object_set_new(all, h->leases[i].bridge, json_text(s)) < 0)
			return err_oom(e);
	}
	return 0;
}

/* How things stand, in a file: it may be long. */
static int answer_show(struct holder *h, int *ret_fd, struct err *e)
{
	auto_json json_t *show = json_object();
	auto_free char *text = NULL;

	if (!show)
		return err_oom(e);
	if (add_leases(h, show, e) < 0 || json_to_str(show, &text, e) < 0)
		return -1;
	return net_memfd("show", text, strlen(text), ret_fd, e);
}

int holder_answer(
	struct holder *h, const char *op, json_t *args, json_t **ret, int *ret_fd, struct err *e)
{
	(void)ret;
	if (strcmp(op, "tap") == 0)
		return answer_tap(h, args, ret_fd, e);
	if (strcmp(op, "show") == 0)
		return answer_show(h, ret_fd, e);
	return err_set(e, ERR_INTERNAL, "the network's holder knows no \"%s\"", op);
}
