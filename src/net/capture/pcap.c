#include "net/capture/pcap.h"

enum { MAGIC_NS = 0xa1b23c4d, LINKTYPE_ETHERNET = 1, ADDRESSES = 12, TAG = 4 };

static void put_le16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}

int pcap_header(struct buf *ret, struct err *e)
{
	uint8_t h[24] = {0};

	put_le32(h, MAGIC_NS); /* times are in nanoseconds */
	put_le16(h + 4, 2);
	put_le16(h + 6, 4);
	put_le32(h + 16, PCAP_SNAP);
	put_le32(h + 20, LINKTYPE_ETHERNET);
	return buf_add(ret, h, sizeof(h), e);
}

int pcap_add(struct buf *ret, const struct pcap_frame *f, struct err *e)
{
	size_t more = f->tagged && f->data.len >= ADDRESSES ? TAG : 0;
	uint8_t h[16], tag[TAG] = {(uint8_t)(f->tpid >> 8), (uint8_t)f->tpid,
			       (uint8_t)(f->tci >> 8), (uint8_t)f->tci};
	size_t head = more ? ADDRESSES : 0;

	put_le32(h, (uint32_t)f->at.tv_sec);
	put_le32(h + 4, (uint32_t)f->at.tv_nsec);
	put_le32(h + 8, (uint32_t)(f->data.len + more));
	put_le32(h + 12, (uint32_t)(f->full + more));
	if (buf_add(ret, h, sizeof(h), e) < 0 || buf_add(ret, f->data.p, head, e) < 0 ||
		buf_add(ret, tag, more, e) < 0)
		return -1;
	return buf_add(ret, f->data.p + head, f->data.len - head, e);
}
