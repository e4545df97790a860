/* fuzz-sftp.c - replies of a guest's SFTP server. */
#include <stdint.h>
#include <stdlib.h>

#include "driver/vagrant/ssh/sftp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = {data, size};
	struct sftp_reply r;
	long n;

	while ((n = sftp_reply_parse(in, &r)) > 0) {
		if ((size_t)n > in.len)
			abort();
		if (r.text.len && (r.text.p < in.p || r.text.p + r.text.len > in.p + n))
			abort();
		in.p += n;
		in.len -= (size_t)n;
	}
	return 0;
}
