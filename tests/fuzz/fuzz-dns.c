/* DNS messages of a guest and of the outside: parsed, answered, and matched against each other. */
#include "net/dns-msg.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dns_question q = {.id = 0x1234, .type = DNS_A, .name = "example.org"}, again;
	struct dns_answer answer;
	struct bytes in = {data, size};
	struct err e;
	uint32_t addr;

	if (dns_parse_answer(in, &q, &answer, &e) == 0 && answer.n_addrs > DNS_ADDRS_MAX)
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
