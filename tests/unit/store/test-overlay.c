#include "store/overlay.h"

#include "test-store.h"

static bool have_qemu_img;

static bool run(const char *const *argv, struct buf *ret_out)
{
	struct proc_req req = {.argv = argv, .out_max = 1 << 20};
	auto_proc_result struct proc_result res = {0};
	struct op op = plain_op(60);
	struct err e;

	if (proc_run(&op, &req, &res, &e) < 0 || res.exit_code != 0)
		return false;
	if (ret_out) {
		*ret_out = res.out;
		res.out = (struct buf){0};
	}
	return true;
}

static bool qemu_check(const char *path)
{
	return run((const char *[]){"qemu-img", "check", "-q", "-f", "qcow2", path, NULL}, NULL);
}

/* Output of `qemu-img info`. */
static char *qemu_info(const char *path)
{
	const char *argv[] = {"qemu-img", "info", "--output=json", "-f", "qcow2", path, NULL};
	auto_buf struct buf out = {0};

	return run(argv, &out) ? buf_take_str(&out) : NULL;
}

static bool says(const char *text, const char *fragment)
{
	return text && strstr(text, fragment);
}

/* QEMU reads the overlay: it shows the base's content, and writes stay in the overlay. */
static void test_with_qemu(void)
{
	struct overlay_req req = {.base = at("base.raw"), .base_format = "raw"};
	char base[300], over[300], second[300];
	auto_free char *info = NULL, *info2 = NULL;
	struct err e;

	snprintf(base, sizeof(base), "%s", req.base);
	snprintf(over, sizeof(over), "%s/over.qcow2", home);
	snprintf(second, sizeof(second), "%s/second.qcow2", home);
	req.base = base;
	req.path = over;
	write_file(base, "0123456789");
	OK(truncate(base, 3 * 512 + 100) == 0);
	OK(overlay_create(&req, &e) == 0);
	OK(qemu_check(over));
	info = qemu_info(over);
	OK(says(info, "\"virtual-size\": 2048"));
	OK(says(info, "\"backing-filename-format\": \"raw\""));
	OK(says(info, base));
	OK(run((const char *[]){"qemu-io", "-f", "qcow2", "-c", "read -P 0x30 0 1", "-c",
		       "write -P 7 512 512", "-c", "read -P 7 512 512", over, NULL},
		NULL));
	OK(qemu_check(over));

	req = (struct overlay_req){
		.path = second, .base = over, .base_format = "qcow2", .size = (uint64_t)20 << 40};
	OK(overlay_create(&req, &e) == 0);
	OK(qemu_check(second));
	info2 = qemu_info(second);
	OK(says(info2, "\"virtual-size\": 21990232555520"));
	OK(run((const char *[]){"qemu-io", "-f", "qcow2", "-c", "read -P 7 512 512", "-c",
		       "write -P 9 19T 64k", "-c", "read -P 9 19T 64k", second, NULL},
		NULL));
	OK(qemu_check(second));
}

static void test_empty_disk(void)
{
	struct overlay_req req = {.path = at("empty.qcow2"), .size = 1 << 30};
	auto_free char *info = NULL;
	struct stat st;
	struct err e;

	OK(overlay_create(&req, &e) == 0);
	OK(stat(req.path, &st) == 0 && (st.st_mode & 0777) == 0600);
	OK(st.st_blocks * 512 <= 64 * 1024);
	info = have_qemu_img ? qemu_info(req.path) : NULL;
	OK(!have_qemu_img ||
		(says(info, "\"virtual-size\": 1073741824") && !says(info, "backing")));
}

static void test_refusals(void)
{
	struct overlay_req req = {
		.path = at("no.qcow2"), .base = at("missing"), .base_format = "raw"};
	uint64_t size;
	struct err e;

	OK(overlay_create(&req, &e) < 0 && e.kind == ERR_NOT_FOUND);
	write_file(at("text"), "just text, and not a disk of any kind");
	req.base = at("text");
	req.base_format = "qcow2";
	OK(overlay_create(&req, &e) < 0 && e.kind == ERR_INVALID);
	req.base_format = "vmdk";
	OK(overlay_create(&req, &e) < 0 && e.kind == ERR_INVALID);
	req.base_format = "raw";
	req.size = 1;
	write_file(at("two"), "x");
	OK(truncate(at("two"), 1024) == 0);
	req.base = at("two");
	OK(overlay_create(&req, &e) < 0 && strstr(e.msg, "smaller"));
	req = (struct overlay_req){.path = at("no.qcow2")};
	OK(overlay_create(&req, &e) < 0 && e.kind == ERR_INVALID);
	req.size = UINT64_MAX;
	OK(overlay_create(&req, &e) < 0 && e.kind == ERR_INVALID);
	OK(!path_exists(at("no.qcow2")));

	write_file(at("there"), "precious");
	req = (struct overlay_req){.path = at("there"), .size = 512};
	OK(overlay_create(&req, &e) < 0);
	OK(disk_size(at("there"), "raw", &size, &e) == 0 && size == 512);
	OK(disk_size(home, "raw", &size, &e) < 0);
}

/* The layout, byte by byte: every VM's disk begins with it. */
static void test_golden(void)
{
	static const uint8_t want[] = {'Q', 'F', 'I', 0xfb, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0x80,
		0, 0, 0, 2, 0, 0, 0, 16, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0,
		0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1};
	static const uint8_t ext[] = {0xe2, 0x79, 0x2a, 0xca, 0, 0, 0, 5, 'q', 'c', 'o', 'w', '2'};
	struct overlay_req req = {.base = "/b", .base_format = "qcow2", .size = 1 << 30};
	auto_buf struct buf head = {0};
	uint64_t len = 0;
	struct err e;
	uint8_t *p;

	OK(overlay_header(&req, &head, &len, &e) == 0);
	OK(len == 4 * 65536 && head.len == 3 * 65536);
	p = buf_data(&head);
	OK(memcmp(p, want, sizeof(want)) == 0);
	OK(p[99] == 4 && p[103] == 104);
	OK(memcmp(p + 104, ext, sizeof(ext)) == 0);
	OK(memcmp(p + 128, "/b", 3) == 0);
	OK(p[65536 + 5] == 2 && p[2 * 65536 + 1] == 1 && p[2 * 65536 + 7] == 1 &&
		p[2 * 65536 + 9] == 0);
	req.base = "relative";
	OK(overlay_header(&req, &head, &len, &e) < 0 && e.kind == ERR_INVALID);
}

int main(int argc, char **argv)
{
	home_begin(argc, argv);
	have_qemu_img = run((const char *[]){"qemu-img", "--version", NULL}, NULL);
	test_golden();
	test_refusals();
	test_empty_disk();
	if (have_qemu_img)
		test_with_qemu();
	else
		printf("# no qemu-img: not compared with it\n");
	home_end();
	return tap_done();
}
