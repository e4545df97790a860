#include "net/plan/set-message.h"

#include <arpa/inet.h>
#include <assert.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>

#include "net/plan/nftables.h"

#define SUBSYSTEM(type) (NFNL_SUBSYS_NFTABLES << 8 | (type))

/* An address in a message: attributes within attributes, each with its length and type. */
struct element {
	struct nlattr element;
	struct nlattr key, value;
	uint32_t addr;
	struct nlattr timeout; /* left out of a message without timeouts */
	uint32_t milliseconds[2];
};

static_assert(sizeof(struct element) == 28, "as in the message, without padding");
static_assert(
	SET_MESSAGE_ADDRS * sizeof(struct element) < UINT16_MAX - NLA_HDRLEN, "a length fits");

static void put_head(struct buf *b, uint16_t type, uint16_t flags, uint8_t family,
	uint16_t resource, size_t more)
{
	struct {
		struct nlmsghdr head;
		struct nfgenmsg body;
	} m = {.head = {.nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | flags},
		.body = {.nfgen_family = family, .res_id = htons(resource)}};

	m.head.nlmsg_len = (uint32_t)(sizeof(m) + more);
	buf_put(b, &m, sizeof(m));
}

static size_t attr_size(const char *text)
{
	return NLA_HDRLEN + NLA_ALIGN(strlen(text) + 1);
}

static void put_text(struct buf *b, uint16_t type, const char *text)
{
	size_t len = strlen(text) + 1;
	struct nlattr head = {.nla_len = (uint16_t)(NLA_HDRLEN + len), .nla_type = type};

	buf_put(b, &head, sizeof(head));
	buf_put(b, text, len);
	buf_put(b, "\0\0\0", NLA_ALIGN(len) - len);
}

static struct nlattr nested(uint16_t type, size_t len)
{
	return (struct nlattr){(uint16_t)(NLA_HDRLEN + len), NLA_F_NESTED | type};
}

static struct element make_element(uint32_t addr, size_t size, uint32_t seconds)
{
	uint64_t milliseconds = (uint64_t)seconds * 1000;

	return (struct element){
		.element = nested(NFTA_LIST_ELEM, size - NLA_HDRLEN),
		.key = nested(NFTA_SET_ELEM_KEY, NLA_HDRLEN + sizeof(addr)),
		.value = {NLA_HDRLEN + sizeof(addr), NFTA_DATA_VALUE},
		.addr = htonl(addr),
		.timeout = {NLA_HDRLEN + sizeof(milliseconds), NFTA_SET_ELEM_TIMEOUT},
		.milliseconds = {htonl((uint32_t)(milliseconds >> 32)),
			htonl((uint32_t)milliseconds)},
	};
}

/* Adds one change of the set, of all addresses at once. Seconds 0: no timeout. */
static void put_change(struct buf *b, uint16_t type, const char *set, const uint32_t *addrs,
	unsigned n, uint32_t seconds)
{
	size_t size = seconds ? sizeof(struct element) : offsetof(struct element, timeout);
	struct nlattr list = nested(NFTA_SET_ELEM_LIST_ELEMENTS, n * size);
	uint16_t flags = NLM_F_ACK | (type == NFT_MSG_NEWSETELEM ? NLM_F_CREATE : 0);

	put_head(b, SUBSYSTEM(type), flags, NFPROTO_INET, 0,
		attr_size(NFTABLES_TABLE_NAME) + attr_size(set) + list.nla_len);
	put_text(b, NFTA_SET_ELEM_LIST_TABLE, NFTABLES_TABLE_NAME);
	put_text(b, NFTA_SET_ELEM_LIST_SET, set);
	buf_put(b, &list, sizeof(list));
	for (unsigned i = 0; i < n; i++) {
		struct element one = make_element(addrs[i], size, seconds);

		buf_put(b, &one, size);
	}
}

/* Adds, deletes and adds all addresses in one transaction: the timeout of an address that is in the
 * set already cannot be restarted otherwise, and only what is there can be deleted. */
int set_message(const char *set, const uint32_t *addrs, unsigned n, uint32_t seconds,
	struct buf *ret, struct err *e)
{
	if (n > SET_MESSAGE_ADDRS)
		return err_set(e, ERR_LIMIT, "%u addresses at once", n);
	put_head(ret, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES, 0);
	put_change(ret, NFT_MSG_NEWSETELEM, set, addrs, n, 0);
	put_change(ret, NFT_MSG_DELSETELEM, set, addrs, n, 0);
	put_change(ret, NFT_MSG_NEWSETELEM, set, addrs, n, seconds);
	put_head(ret, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES, 0);
	return buf_check(ret, e);
}
