#include "wire/frame.h"

static uint32_t le32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

long frame_decode(
	const uint8_t *p, size_t len, const struct frame_limits *limits, struct frame *ret)
{
	uint32_t head_len, body_len;
	uint64_t whole;

	if (len < FRAME_HEADER)
		return 0;
	head_len = le32(p);
	body_len = le32(p + 4);
	if (head_len < limits->head_min || head_len > limits->head_max ||
		body_len > limits->body_max)
		return -1;
	whole = (uint64_t)FRAME_HEADER + head_len + body_len;
	if (len < whole)
		return 0;
	*ret = (struct frame){
		.head = p + FRAME_HEADER,
		.body = p + FRAME_HEADER + head_len,
		.head_len = head_len,
		.body_len = body_len,
	};
	return (long)whole;
}

void frame_encode_header(uint8_t out[FRAME_HEADER], uint32_t head_len, uint32_t body_len)
{
	for (int i = 0; i < 4; i++) {
		out[i] = (uint8_t)(head_len >> (8 * i));
		out[4 + i] = (uint8_t)(body_len >> (8 * i));
	}
}
