#include "driver/vagrant/ssh/sftp.h"

#include "tap.h"

static long parse(const char *bytes, size_t len, struct sftp_reply *ret)
{
	return sftp_reply_parse((struct bytes){(const uint8_t *)bytes, len}, ret);
}

static void test_requests(void)
{
	auto_buf struct buf b = {0};
	struct bytes handle = {(const uint8_t *)"h1", 2}, data = {(const uint8_t *)"abc", 3};
	struct err e;

	OK(sftp_put_init(&b, &e) == 0 && b.len == 9);
	OK(memcmp(buf_data(&b), "\0\0\0\5\1\0\0\0\3", 9) == 0);
	buf_drop(&b, b.len);
	OK(sftp_put_open(&b, 7, "/f", 0700, &e) == 0);
	OK(b.len == 27 &&
		memcmp(buf_data(&b), "\0\0\0\27\3\0\0\0\7\0\0\0\2/f\0\0\0\32\0\0\0\4\0\0\1\300",
			27) == 0);
	buf_drop(&b, b.len);
	OK(sftp_put_write(&b, 8, handle, 0x100000002, data, &e) == 0);
	OK(b.len == 30 &&
		memcmp(buf_data(&b), "\0\0\0\32\6\0\0\0\10\0\0\0\2h1\0\0\0\1\0\0\0\2\0\0\0\3abc",
			30) == 0);
	buf_drop(&b, b.len);
	OK(sftp_put_close(&b, 9, handle, &e) == 0 && b.len == 15);
}

static void test_replies(void)
{
	struct sftp_reply r;

	OK(parse("\0\0\0\5\2\0\0\0\3", 9, &r) == 9 && r.type == SFTP_IS_VERSION && r.id == 3);
	OK(parse("\0\0\0\5\2\0\0\0", 8, &r) == 0);
	OK(parse("\0\0", 2, &r) == 0);
	OK(parse("\0\0\0\13\146\0\0\0\7\0\0\0\2h1", 15, &r) == 15 && r.type == SFTP_IS_HANDLE);
	OK(r.id == 7 && r.text.len == 2 && memcmp(r.text.p, "h1", 2) == 0);
	OK(parse("\0\0\0\21\145\0\0\0\7\0\0\0\4\0\0\0\4oops", 21, &r) == 21);
	OK(r.type == SFTP_IS_STATUS && r.code == 4 && r.text.len == 4);
	OK(parse("\0\0\0\11\145\0\0\0\7\0\0\0\0", 13, &r) == 13 && r.code == 0 && !r.text.len);
}

static void test_nonsense(void)
{
	struct sftp_reply r;

	OK(parse("\177\0\0\0\2", 5, &r) < 0);
	OK(parse("\0\0\0\4\2\0\0\0", 8, &r) < 0);
	OK(parse("\0\0\0\5\143\0\0\0\1", 9, &r) < 0);
	/* a handle that claims to be longer than its packet */
	OK(parse("\0\0\0\13\146\0\0\0\7\0\0\1\0h1", 15, &r) < 0);
	OK(parse("\0\0\0\6\145\0\0\0\7\0", 10, &r) < 0);
}

int main(void)
{
	test_requests();
	test_replies();
	test_nonsense();
	return tap_done();
}
