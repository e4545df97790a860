/* fuzz-http.c - a head of a request to the web console. What has been read is judged and answered.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "web/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_buf struct buf out = {0};
	struct http_head head = {0};
	enum http_status status;
	long n = http_head_read((struct bytes){data, size}, &head, &status);

	if (n > (long)size || n > HTTP_HEAD_MAX || (n > 0) != (status == HTTP_OK))
		abort();
	if (n == 0 && size >= HTTP_HEAD_MAX)
		abort();
	if (n <= 0)
		return 0;
	if (head.path[0] != '/' || strpbrk(head.host, "\r\n") || strpbrk(head.origin, "\r\n"))
		abort();
	if (http_head_check(&head, 8300) == HTTP_OK) {
		struct http_answer a = {.status = HTTP_NOT_FOUND, .host = head.host};

		http_answer_put(&out, &a);
	}
	if (head.upgrade)
		http_switch_put(&out, &head);
	return 0;
}
