/* DNS messages of a guest and of the outside: parsed, answered, and matched against each other. */
#include "net/dns-stream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The same bytes as a guest's connection: whatever it sends, messages are within their limit. */
static void read_as_stream(const uint8_t *data, size_t size)
{
	enum { MAX = 300 };
	struct dns_stream s = {.fd = -1};
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) < 0)
		abort();
	s.fd = ends[0];
	(void)!write(ends[1], data, size);
	close(ends[1]);
	while (dns_stream_read(&s, MAX) == DNS_STREAM_DONE) {
		struct dns_question q;
		struct err e;

		if (dns_stream_message(&s).len > MAX)
			abort();
		(void)dns_parse_query(dns_stream_message(&s), &q, &e);
		dns_stream_next(&s);
	}
	dns_stream_close(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dns_question q = {.id = 0x1234, .type = DNS_A, .name = "example.org"}, again;
	struct dns_answer answer;
	struct bytes in = {data, size};
	struct err e;
	uint32_t addr;

	read_as_stream(data, size);
	if (dns_parse_answer(in, &q, &answer, &e) == 0 &&
		(answer.n_addrs > DNS_ADDRS_MAX || answer.n_named > answer.n_addrs))
		abort();
	if (dns_parse_query(in, &q, &e) == 0) {
		auto_buf struct buf out = {0};

		if (q.end > size || strlen(q.name) >= DNS_NAME_MAX)
			abort();
		dns_reverse_name(q.name, &addr);
		dns_name_matches(q.name, "*.example.org");
		/* What we answer is an answer to what was asked. */
		if (dns_make_answer(in, &q, DNS_OK, 0x0a000001, NULL, &out, &e) < 0 ||
			dns_parse_answer(buf_bytes(&out), &q, &answer, &e) < 0 ||
			answer.n_addrs != 1)
			abort();
		again = q;
		again.type++;
		if (dns_parse_answer(buf_bytes(&out), &again, &answer, &e) == 0)
			abort();
	}
	return 0;
}
