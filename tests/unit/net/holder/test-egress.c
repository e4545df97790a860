/* Opening addresses, in the kernel's nftables: all of an answer's or none, for how long, and in
 * sets that are full. */
#include "net/holder/egress.h"

#include <linux/netlink.h>
#include <sched.h>
#include <sys/socket.h>

#include "net/plan/set-message.h"
#include "tap.h"
#include "util/auto.h"
#include "util/json.h"

enum { FIRST = 0xcb007101 }; /* 203.0.113.1 */

static const struct op forever = {.deadline_ns = OP_NO_DEADLINE, .cancel_fd = -1};

static void make_sets(void)
{
	static const char rules[] = "table inet moat {\n"
				    "set small {\ntype ipv4_addr\nflags timeout\nsize 4\n}\n"
				    "set large {\ntype ipv4_addr\nflags timeout\nsize 4096\n}\n}\n";
	static const char *const nft[] = {"nft", "-f", "-", NULL};
	struct bytes text = {(const uint8_t *)rules, sizeof(rules) - 1};
	struct err e;

	OK(child_run(&forever, -1, nft, text, NULL, &e) == 0);
}

/* The number of elements in a set, if each has this timeout in seconds; -1 if one has not. */
static int count(const char *set, json_int_t timeout)
{
	const char *nft[] = {"nft", "-j", "list", "set", "inet", "moat", set, NULL};
	auto_buf struct buf out = {0};
	auto_json json_t *j = NULL;
	json_t *list, *one;
	struct err e;
	size_t i;

	if (child_run(&forever, -1, nft, (struct bytes){0}, &out, &e) < 0 ||
		json_parse_object(buf_bytes(&out), &j, &e) < 0)
		return -1;
	list = json_array_get(json_object_get(j, "nftables"), 1);
	list = json_object_get(json_object_get(list, "set"), "elem");
	json_array_foreach(list, i, one) {
		one = json_object_get(json_object_get(one, "elem"), "timeout");
		if (json_integer_value(one) != timeout)
			return -1;
	}
	return (int)json_array_size(list);
}

static void test_sets(struct holder *h)
{
	static uint32_t addrs[SET_MESSAGE_ADDRS + 1];
	struct err e = {0};

	for (unsigned i = 0; i < ARRAY_LEN(addrs); i++)
		addrs[i] = FIRST + i;
	OK(egress_open_addresses(h, "small", addrs, 3, 600, &e) == 0 && count("small", 600) == 3);
	OK(egress_open_addresses(h, "small", addrs + 3, 2, 600, &e) < 0); /* room for one more */
	STR_IS(e.msg, "set small: Too many open files in system");
	OK(count("small", 600) == 3);
	OK(egress_open_addresses(h, "small", addrs, 4, 9000, &e) == 0); /* three are there */
	OK(count("small", 9000) == 4);
	OK(egress_open_addresses(h, "small", addrs, 1, 600, &e) == 0 && count("small", 600) == -1);
	OK(egress_open_addresses(h, "large", addrs, SET_MESSAGE_ADDRS, 86400, &e) == 0);
	OK(count("large", 86400) == SET_MESSAGE_ADDRS);
	OK(egress_open_addresses(h, "large", addrs, SET_MESSAGE_ADDRS + 1, 600, &e) < 0);
	OK(egress_open_addresses(h, "other", addrs, 1, 600, &e) < 0);
	STR_IS(e.msg, "set other: No such file or directory");
	/* Answers to a failure are not taken for those to the next message. */
	OK(egress_open_addresses(h, "small", addrs, 4, 700, &e) == 0 && count("small", 700) == 4);
}

int main(void)
{
	struct holder h = {0};
	int on = 1;

	if (tap_needs_root("it makes a network namespace"))
		return 0;
	OK(unshare(CLONE_NEWNET) == 0);
	make_sets();
	h.nftables = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	OK(setsockopt(h.nftables, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on)) == 0);
	test_sets(&h);
	return tap_done();
}
