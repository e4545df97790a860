/* DNS messages on a TCP connection: in pieces, several at once, too long, incomplete; and a slow
 * reader. */
#include "net/dns/stream.h"

#include <sys/socket.h>
#include <unistd.h>

#include "tap.h"
#include "util/auto.h"

static void pair(int *ret_other, struct dns_stream *s)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) < 0)
		abort();
	*s = (struct dns_stream){.fd = ends[0]};
	*ret_other = ends[1];
}

static void give(int fd, const char *bytes, size_t n)
{
	if (write(fd, bytes, n) != (ssize_t)n)
		abort();
}

static bool is_message(const struct dns_stream *s, const char *text)
{
	struct bytes m = dns_stream_message(s);

	return m.len == strlen(text) && memcmp(m.p, text, m.len) == 0;
}

static void test_pieces(void)
{
	static const char two[] = "\0\5hello\0\3you";
	struct dns_stream s;
	int fd;

	pair(&fd, &s);
	OK(dns_stream_read(&s, 100) == DNS_STREAM_WAIT);
	for (size_t i = 0; i + 1 < sizeof(two) - 1; i++) {
		give(fd, two + i, 1);
		if (i == 6) {
			OK(dns_stream_read(&s, 100) == DNS_STREAM_DONE);
			OK(is_message(&s, "hello"));
			dns_stream_next(&s);
		} else if (dns_stream_read(&s, 100) != DNS_STREAM_WAIT) {
			tap_ok(0, "after %zu bytes there is a message", i + 1);
		}
	}
	give(fd, two + sizeof(two) - 2, 1);
	OK(dns_stream_read(&s, 100) == DNS_STREAM_DONE && is_message(&s, "you"));
	dns_stream_next(&s);
	give(fd, two, sizeof(two) - 1); /* both arrive together and are read one after the other */
	OK(dns_stream_read(&s, 100) == DNS_STREAM_DONE && is_message(&s, "hello"));
	OK(dns_stream_read(&s, 100) == DNS_STREAM_DONE && is_message(&s, "hello"));
	dns_stream_next(&s);
	OK(dns_stream_read(&s, 100) == DNS_STREAM_DONE && is_message(&s, "you"));
	close(fd);
	dns_stream_close(&s);
	OK(s.fd == -1);
	dns_stream_close(&s); /* twice is fine */
}

static void test_bad(void)
{
	struct dns_stream s;
	int fd;

	pair(&fd, &s);
	give(fd, "\0\145x", 3); /* announces 101 bytes */
	OK(dns_stream_read(&s, 100) == DNS_STREAM_BROKEN);
	close(fd);
	dns_stream_close(&s);
	pair(&fd, &s);
	give(fd, "\0\5hel", 5);
	close(fd);
	OK(dns_stream_read(&s, 100) == DNS_STREAM_BROKEN);
	dns_stream_close(&s);
	pair(&fd, &s);
	give(fd, "\0", 2); /* a message of no bytes */
	OK(dns_stream_read(&s, 100) == DNS_STREAM_DONE && is_message(&s, ""));
	close(fd);
	dns_stream_close(&s);
}

/* Sends the longest message to a peer that reads it in small pieces. */
static void test_slow_reader(void)
{
	static uint8_t message[DNS_MESSAGE_MAX], got[DNS_MESSAGE_MAX + 2];
	struct bytes all = {message, sizeof(message)};
	enum dns_stream_state state = DNS_STREAM_WAIT;
	size_t n = 0;
	struct dns_stream s;
	struct err e;
	bool waited = false;
	int fd, small = 4096;

	for (size_t i = 0; i < sizeof(message); i++)
		message[i] = (uint8_t)(i * 7);
	pair(&fd, &s);
	setsockopt(s.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	OK(dns_stream_put(&s, all, &e) == 0);
	while (n < sizeof(got)) {
		ssize_t some;

		if (state == DNS_STREAM_WAIT)
			state = dns_stream_write(&s);
		waited |= state == DNS_STREAM_WAIT;
		some = read(fd, got + n, 1000 < sizeof(got) - n ? 1000 : sizeof(got) - n);
		if (some <= 0)
			break;
		n += (size_t)some;
	}
	OK(waited && state == DNS_STREAM_DONE && n == sizeof(got));
	OK(got[0] == 0xff && got[1] == 0xff && memcmp(got + 2, message, sizeof(message)) == 0);
	close(fd);
	OK(dns_stream_put(&s, all, &e) == 0 && dns_stream_write(&s) == DNS_STREAM_BROKEN);
	dns_stream_close(&s);
	all.len++;
	OK(dns_stream_put(&s, all, &e) < 0);
}

int main(void)
{
	test_pieces();
	test_bad();
	test_slow_reader();
	return tap_done();
}
