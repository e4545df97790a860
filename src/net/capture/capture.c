#include "net/capture/capture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "net/capture/pcap.h"
#include "util/auto.h"

enum { QUEUE = 4 << 20, AT_ONCE = 256 * 1024, BATCH = 256 };

int capture_socket(int *ret, struct err *e)
{
	auto_fd int fd =
		socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL));
	int on = 1, queue = QUEUE;

	if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on)) < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)) < 0)
		return err_sys(e, errno, "packet socket");
	/* A burst of frames must fit. The first option exceeds the system's limit and needs
	 * CAP_NET_ADMIN; the second does not. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &queue, sizeof(queue)) < 0)
		(void)!setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &queue, sizeof(queue));
	*ret = take_fd(&fd);
	return 0;
}

static bool is_among(const int *list, size_t n, int what)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == what)
			return true;
	return false;
}

static bool is_wanted(const struct capture *c, const struct sockaddr_ll *from)
{
	if (from->sll_pkttype == PACKET_OUTGOING)
		return is_among(c->gates, c->n_gates, from->sll_ifindex);
	return is_among(c->taps, c->n_taps, from->sll_ifindex);
}

static void read_control(struct msghdr *m, struct pcap_frame *f)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
		if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_TIMESTAMPNS) {
			memcpy(&f->at, CMSG_DATA(h), sizeof(f->at));
		} else if (h->cmsg_level == SOL_PACKET && h->cmsg_type == PACKET_AUXDATA) {
			struct tpacket_auxdata aux;

			memcpy(&aux, CMSG_DATA(h), sizeof(aux));
			f->tagged = aux.tp_status & TP_STATUS_VLAN_VALID;
			f->tpid = aux.tp_status & TP_STATUS_VLAN_TPID_VALID ? aux.tp_vlan_tpid
									    : ETH_P_8021Q;
			f->tci = aux.tp_vlan_tci;
		}
	}
}

/* Returns 1 if it read a frame, wanted or not; 0 if there is none. */
static int take_frame(const struct capture *c, uint8_t *room, struct buf *out, struct err *e)
{
	char control[256] __attribute__((aligned(8)));
	struct sockaddr_ll from = {0};
	struct iovec iov = {room, PCAP_SNAP};
	struct msghdr m = {.msg_name = &from,
		.msg_namelen = sizeof(from),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	struct pcap_frame f = {0};
	ssize_t n = recvmsg(c->fd, &m, MSG_TRUNC);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : err_sys(e, errno, "packet socket");
	if (!is_wanted(c, &from))
		return 1;
	read_control(&m, &f);
	f.full = (size_t)n;
	f.data = (struct bytes){room, f.full < PCAP_SNAP ? f.full : PCAP_SNAP};
	return pcap_add(out, &f, e) < 0 ? -1 : 1;
}

int capture_run(const struct capture *c, const struct op *op,
	int (*output)(void *arg, struct bytes data, struct err *e), void *arg, struct err *e)
{
	auto_free uint8_t *room = malloc(PCAP_SNAP);
	auto_buf struct buf out = {0};

	if (!room)
		return err_oom(e);
	if (pcap_header(&out, e) < 0)
		return -1;
	for (;;) {
		int got = 1;

		for (unsigned i = 0; got > 0 && i < BATCH && out.len < AT_ONCE; i++)
			got = take_frame(c, room, &out, e);
		if (got < 0 || (out.len && output(arg, buf_bytes(&out), e) < 0))
			return -1;
		buf_drop(&out, out.len);
		if (op_wait_fd(op, c->fd, POLLIN, e) < 0)
			return -1;
	}
}
