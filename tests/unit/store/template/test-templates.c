/* Templates on disk and in memory, without any VM: publishing, taking, damage, limits, sweeping. */
#include "store/template/templates.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "tap.h"
#include "scratch.h"
#include "util/json.h"

enum { RAM = 4 << 20 };
static const char key_a[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		  key_b[] = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

static struct templates *open_store(uint64_t disk_max)
{
	struct templates_config cfg = {
		.data_dir = scratch, .disk_max = disk_max, .memory_max = 64 << 20};
	struct templates *ts;
	struct err e;

	if (templates_open(&cfg, &ts, &e) < 0)
		abort();
	return ts;
}

static int publish(struct templates *ts, const char *key, char fill, struct err *e)
{
	struct op op = op_for_cleanup(60);
	struct template_draft d = {0};
	auto_json json_t *about = json_pack("{s:s}", "image", "1234");
	char page[4096];
	int rc;

	memset(page, fill, sizeof(page));
	if (templates_draft(ts, RAM, &d, e) < 0)
		return -1;
	for (int i = 0; i < RAM / 8192; i++) /* every other page */
		if (pwrite(d.ram_fd, page, sizeof(page), i * 8192) != sizeof(page))
			abort();
	snprintf(page, sizeof(page), "%s/state", d.dir);
	put_file(page, "the state");
	rc = templates_publish(ts, &op, &d, key, about, e);
	templates_discard(&d);
	return rc;
}

static void test_take(void)
{
	struct templates *ts = open_store(1 << 30);
	struct op op = op_for_cleanup(60);
	struct template *t = NULL, *again = NULL;
	struct err e;
	char byte = 0;

	OK(templates_take(ts, &op, key_a, &t, &e) == 0);
	OK(publish(ts, key_a, 'x', &e) == 0);
	OK(templates_take(ts, &op, key_a, &t, &e) == 1);
	OK(t->ram_size == RAM && !t->disk && path_exists(t->state));
	OK(pread(t->ram_fd, &byte, 1, 8192) == 1 && byte == 'x');
	OK(pread(t->ram_fd, &byte, 1, 4096) == 1 && byte == 0);
	OK(pwrite(t->ram_fd, "y", 1, 0) < 0 && errno == EPERM);
	OK(ftruncate(t->ram_fd, 1) < 0);
	OK(mmap(NULL, RAM, PROT_READ | PROT_WRITE, MAP_SHARED, t->ram_fd, 0) == MAP_FAILED);
	OK(templates_take(ts, &op, key_a, &again, &e) == 1 && again == t);
	OK(templates_remove(ts, key_a, &(uint64_t){0}, &e) < 0 && e.kind == ERR_BUSY);
	templates_give(ts, again);
	templates_give(ts, t);
	templates_give(ts, NULL);
	OK(templates_remove(ts, "aaaa", &(uint64_t){0}, &e) == 0);
	OK(templates_take(ts, &op, key_a, &t, &e) == 0);
	OK(templates_remove(ts, "aaaa", &(uint64_t){0}, &e) < 0 && e.kind == ERR_NOT_FOUND);
	templates_close(ts);
	templates_close(NULL);
}

static void damage(const char *file, off_t where, bool cut)
{
	auto_fd int fd = open(at("templates/%s/%s", key_a, file), O_RDWR | O_CLOEXEC);

	if (cut ? ftruncate(fd, where) < 0 : pwrite(fd, "!", 1, where) != 1)
		abort();
}

static void test_damage(void)
{
	static const struct {
		const char *file;
		off_t where;
		bool cut;
	} rows[] = {{"ram", 8192, false}, {"ram", 4096, false}, {"ram", RAM / 2, true},
		{"state", 0, false}, {"state", 3, true}, {"manifest.json", 0, false},
		{"manifest.json", 0, true}};
	struct op op = op_for_cleanup(60);
	struct template *t = NULL;
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct templates *ts = open_store(1 << 30);

		if (publish(ts, key_a, 'x', &e) < 0)
			abort();
		damage(rows[i].file, rows[i].where, rows[i].cut);
		tap_ok(templates_take(ts, &op, key_a, &t, &e) == 0, "%s at %ld is noticed",
			rows[i].file, (long)rows[i].where);
		tap_ok(!path_exists(at("templates/%s", key_a)), "and it is gone");
		templates_close(ts);
	}
}

/* Open files may run out at any step of loading: the template is not damaged then. */
static void test_shortage(void)
{
	struct templates *ts = open_store(1 << 30);
	struct op op = op_for_cleanup(60);
	struct template *t = NULL;
	struct rlimit all, few;
	struct err e;
	int free_fd = dup(0);

	close(free_fd);
	if (publish(ts, key_a, 'x', &e) < 0 || getrlimit(RLIMIT_NOFILE, &all) < 0)
		abort();
	for (int room = 0; room < 3; room++) {
		few = (struct rlimit){(rlim_t)(free_fd + room), all.rlim_max};
		setrlimit(RLIMIT_NOFILE, &few);
		tap_ok(templates_take(ts, &op, key_a, &t, &e) < 0 && err_is_shortage(&e),
			"no more than %d files", room);
		setrlimit(RLIMIT_NOFILE, &all);
		tap_ok(path_exists(at("templates/%s", key_a)), "and it is still there");
	}
	OK(templates_take(ts, &op, key_a, &t, &e) == 1);
	templates_give(ts, t);
	OK(templates_remove(ts, key_a, &(uint64_t){0}, &e) == 0);
	templates_close(ts);
}

static bool never(void *arg, const json_t *about)
{
	(void)about;
	return arg != NULL;
}

static void test_limits(void)
{
	struct templates *ts = open_store(3 << 20); /* room for one */
	auto_json json_t *list = NULL;
	struct template_draft d = {0};
	struct err e;

	OK(publish(ts, key_a, 'x', &e) == 0 && publish(ts, key_b, 'y', &e) == 0);
	OK(templates_list(ts, &list, &e) == 0 && json_array_size(list) == 1);
	tap_str(json_string_value(json_object_get(json_array_get(list, 0), "key")), key_b,
		"the older went");
	OK(templates_draft(ts, RAM, &d, &e) == 0);
	OK(templates_sweep(ts, never, NULL, NULL, NULL, &e) == 0);
	OK(path_exists(d.dir)); /* its lock is held, as if its maker were alive */
	close(d.lock_fd);
	OK(templates_sweep(ts, never, NULL, NULL, NULL, &e) == 0);
	OK(!path_exists(d.dir)); /* its lock is free, as if its maker were dead */
	d.lock_fd = -1;
	templates_discard(&d);
	OK(templates_sweep(ts, never, ts, NULL, NULL, &e) == 0);
	OK(!path_exists(at("templates/%s", key_b)));
	templates_close(ts);
}

static void test_claim(void)
{
	struct templates *one = open_store(1 << 30), *two = open_store(1 << 30);
	struct op op = op_for_cleanup(60), soon = op_for_cleanup(0.2);
	auto_fd int a = -1, b = -1;
	struct err e, why = {.kind = ERR_BACKEND, .msg = "no"};

	OK(templates_claim(one, &op, key_a, &a, &e) == 0);
	OK(templates_claim(two, &soon, key_a, &b, &e) < 0 && e.kind == ERR_TIMEOUT);
	close(take_fd(&a));
	OK(templates_claim(two, &op, key_a, &b, &e) == 0);
	OK(!templates_failed(one, key_a, &e));
	templates_note_failure(one, key_a, 60 * (int64_t)1000000000, &why);
	OK(templates_failed(one, key_a, &e) && e.kind == ERR_BACKEND);
	templates_note_failure(one, key_b, 0, &why);
	OK(!templates_failed(one, key_b, &e)); /* what failed at once may be tried at once */
	templates_close(one);
	templates_close(two);
}

/* A template that an earlier version of moat made is never taken again, so a sweep removes it. */
static void test_old_format(void)
{
	struct templates *ts = open_store(1 << 30);
	auto_json json_t *manifest = NULL;
	auto_free char *text = NULL;
	struct err e;

	OK(publish(ts, key_a, 'x', &e) == 0 && publish(ts, key_b, 'y', &e) == 0);
	manifest = json_load_file(at("templates/%s/manifest.json", key_a), 0, NULL);
	OK(json_integer_value(json_object_get(manifest, "version")) == TEMPLATE_FORMAT);
	json_object_set_new(manifest, "version", json_integer(TEMPLATE_FORMAT - 1));
	OK(json_to_str(manifest, &text, &e) == 0);
	put_file(at("templates/%s/manifest.json", key_a), text);
	OK(templates_sweep(ts, never, NULL, NULL, NULL, &e) == 0);
	OK(!path_exists(at("templates/%s", key_a)) && path_exists(at("templates/%s", key_b)));
	OK(templates_remove(ts, key_b, &(uint64_t){0}, &e) == 0);
	templates_close(ts);
}

int main(void)
{
	scratch_begin();
	test_take();
	test_damage();
	test_shortage();
	test_limits();
	test_claim();
	test_old_format();
	scratch_end();
	return tap_done();
}
