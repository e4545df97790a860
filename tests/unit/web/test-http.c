/* Which requests the console reads, and which it answers. */
#include "web/http.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "util/auto.h"
#include "util/str.h"

static struct http_head head;

/* The status of a head, and its length. */
static enum http_status status_of(const char *text, long *ret_len)
{
	enum http_status status;

	*ret_len =
		http_head_read((struct bytes){(const uint8_t *)text, strlen(text)}, &head, &status);
	return status;
}

static bool is_read(const char *text)
{
	long len;

	return status_of(text, &len) == HTTP_OK && len == (long)strlen(text);
}

static bool is_refused(const char *text, enum http_status status)
{
	long len;

	return status_of(text, &len) == status && len == -1;
}

static enum http_status checked_at(
	unsigned port, const char *host, const char *origin, bool upgrade)
{
	struct http_head h = {.upgrade = upgrade};

	strcpy(h.host, host);
	strcpy(h.origin, origin);
	return http_head_check(&h, port);
}

static enum http_status checked(const char *host, const char *origin, bool upgrade)
{
	return checked_at(8300, host, origin, upgrade);
}

static void test_reading(void)
{
	long len;

	OK(is_read("GET / HTTP/1.1\r\nHost: localhost:8300\r\n\r\n"));
	STR_IS(head.path, "/");
	STR_IS(head.host, "localhost:8300");
	OK(!head.upgrade);
	OK(is_read("GET /socket?a=b HTTP/1.1\r\nhost:[::1]:1\r\nUpgrade: WebSocket\r\n"
		   "Connection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n"
		   "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: http://a\r\n\r\n"));
	STR_IS(head.path, "/socket");
	STR_IS(head.origin, "http://a");
	OK(head.upgrade);
	status_of("GET / HTTP/1.1\r\nHost: a\r\n", &len);
	tap_ok(len == 0, "a head that is not complete is waited for");
}

static void test_refusing(void)
{
	static char many[HTTP_HEAD_MAX + 1];
	auto_buf struct buf fields = {0};

	OK(is_refused("POST / HTTP/1.1\r\n\r\n", HTTP_METHOD));
	OK(is_refused("GET / HTTP/1.0\r\n\r\n", HTTP_BAD));
	OK(is_refused("GET http://a/ HTTP/1.1\r\n\r\n", HTTP_BAD));
	OK(is_refused("GET /\r\n\r\n", HTTP_BAD));
	OK(is_refused("\r\n\r\n", HTTP_BAD));
	OK(is_refused("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", HTTP_BAD));
	OK(is_refused("GET / HTTP/1.1\r\nOrigin: a\r\nOrigin: b\r\n\r\n", HTTP_BAD));
	OK(is_refused("GET / HTTP/1.1\r\nContent-Length: 1\r\n\r\n", HTTP_BAD));
	OK(is_refused("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP_BAD));
	OK(is_refused("GET / HTTP/1.1\r\nHost : a\r\n\r\n", HTTP_BAD));
	OK(is_refused("GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", HTTP_BAD));
	OK(is_refused("GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", HTTP_BAD));
	memset(many, 'a', HTTP_HEAD_MAX);
	OK(is_refused(many, HTTP_TOO_LARGE));
	buf_puts(&fields, "GET / HTTP/1.1\r\n");
	for (unsigned i = 0; i <= HTTP_FIELDS_MAX; i++)
		buf_puts(&fields, "A: b\r\n");
	buf_put(&fields, "\r\n", 3);
	OK(is_refused((const char *)buf_data(&fields), HTTP_TOO_LARGE));
}

static void test_names(void)
{
	OK(checked("127.0.0.1:8300", "", false) == HTTP_OK);
	OK(checked("LOCALHOST:8300", "http://127.0.0.1:8300", true) == HTTP_OK);
	OK(checked("[::1]:8300", "", false) == HTTP_OK);
	OK(checked("127.0.0.1", "", false) == HTTP_MISDIRECTED);
	OK(checked("127.0.0.1:8301", "", false) == HTTP_MISDIRECTED);
	OK(checked("127.0.0.1:83000", "", false) == HTTP_MISDIRECTED);
	OK(checked("localhost.evil.example:8300", "", false) == HTTP_MISDIRECTED);
	OK(checked("", "", false) == HTTP_MISDIRECTED);
	tap_ok(checked("127.0.0.1:8300", "", true) == HTTP_FORBIDDEN,
		"a websocket says where it comes from");
	OK(checked("127.0.0.1:8300", "http://evil.example", true) == HTTP_FORBIDDEN);
	OK(checked("127.0.0.1:8300", "http://127.0.0.1:8301", false) == HTTP_FORBIDDEN);
	OK(checked("127.0.0.1:8300", "https://127.0.0.1:8300", true) == HTTP_FORBIDDEN);
	OK(checked("127.0.0.1:8300", "null", true) == HTTP_FORBIDDEN);
	/* a browser does not name the port 80 */
	OK(checked_at(80, "localhost", "http://localhost", true) == HTTP_OK);
	OK(checked_at(80, "evil.example", "", false) == HTTP_MISDIRECTED);
	OK(checked_at(80, "localhost", "http://evil.example", true) == HTTP_FORBIDDEN);
}

static void test_answers(void)
{
	struct http_answer a = {.status = HTTP_NOT_FOUND, .host = "localhost:8300"};
	auto_buf struct buf out = {0};
	auto_free char *text = NULL;

	http_answer_put(&out, &a);
	text = buf_take_str(&out);
	OK(str_starts(text, "HTTP/1.1 404 Not Found\r\n"));
	OK(strstr(text, "default-src 'none'") && strstr(text, "frame-ancestors 'none'"));
	OK(strstr(text, "ws://localhost:8300;"));
	OK(str_ends(text, "\r\n\r\nNot Found"));
}

int main(void)
{
	test_reading();
	test_refusing();
	test_names();
	test_answers();
	return tap_done();
}
