/* The life of sandboxes in the registry, with a scripted driver. */
#include "daemon/registry/registry.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include "tap.h"
#include "scratch.h"
#include "spec/yaml.h"
#include "util/json.h"

static bool all_alive; /* otherwise the second VM is dead */

static void describe(struct driver_sandbox *b, unsigned vm, struct vm_info *ret)
{
	*ret = (struct vm_info){.state = vm == 0 || all_alive ? VM_RUNNING : VM_DEAD,
		.image = "tiny",
		.user = "user",
		.accelerator = "tcg",
		.link = b ? "runner" : "",
		.pid = 42};
	if (vm == 1)
		snprintf(ret->error, sizeof(ret->error), "fell \xff over");
}

static const struct driver_ops script_ops = {
	.name = "script", .on_this_host = true, .describe = describe};
static struct driver driver = {.ops = &script_ops, .vm_overhead_mb = 48};
static struct driver_sandbox driven = {.driver = &driver};

static struct sandbox_spec *two_vms(void)
{
	static const char text[] = "vms: [{name: one, source: tiny, ram_mb: 100}, "
				   "{name: two, source: tiny, ram_mb: 300, is_sandbox: false}]";
	auto_json json_t *j = NULL;
	struct sandbox_spec *spec = NULL;
	struct err e;

	if (spec_text_to_json((struct bytes){(const uint8_t *)text, strlen(text)}, &j, &e) < 0 ||
		spec_parse(j, &spec, &e) < 0)
		abort();
	return spec;
}

static struct sandbox *add(struct registry *r, uint64_t lease, struct op *maker)
{
	struct sandbox_new req = {.driver = &driver,
		.spec = two_vms(),
		.labels = json_pack("{s:s}", "eval", "e1"),
		.lease = lease,
		.owner_pid = 7,
		.maker = maker};
	struct sandbox *sb = NULL;
	struct err e;

	req.ram_mb = spec_total_ram(req.spec, req.driver);
	if (registry_add(r, &req, &sb, &e) < 0)
		abort();
	return sb;
}

/* NULL: e says why not. */
static struct sandbox *add_named(struct registry *r, const char *name, bool copy, struct err *e)
{
	struct sandbox_new req = {.driver = &driver,
		.spec = two_vms(),
		.labels = json_pack("{s:s}", "eval", "e1"),
		.name = name,
		.copy = copy};
	struct sandbox *sb = NULL;

	if (registry_add(r, &req, &sb, e) == 0)
		return sb;
	spec_free(req.spec);
	json_decref(req.labels);
	return NULL;
}

static bool everyone(const struct sandbox *sb, void *arg)
{
	(void)sb;
	(void)arg;
	return true;
}

static bool of_lease(const struct sandbox *sb, void *arg)
{
	return sb->lease == *(uint64_t *)arg;
}

static void test_life(struct registry *r)
{
	struct op op = op_for_cleanup(10);
	struct driver_sandbox *taken = NULL;
	struct sandbox *sb, *leaving;
	struct borrower b = {0};
	char id[16];
	struct err e;

	sb = add(r, 1, &op);
	memcpy(id, sb->id, sizeof(id));
	OK(strlen(id) == 10 && strspn(id, "0123456789abcdef") == 10);
	OK(sb->ram_mb == 400 + 2 * 48 && sb->state == SANDBOX_CREATING && registry_has(r, id));
	OK(registry_borrow(r, id, &op, &b, &e) < 0 && e.kind == ERR_UNAVAILABLE);
	OK(strstr(e.msg, "is creating"));
	OK(!registry_start_removal(r, everyone, NULL, &taken)); /* its maker thread removes it */
	OK(registry_running(r, sb, &driven, false, &e) == 0 && sb->lease == 1);
	OK(registry_running(r, sb, &driven, false, &e) < 0 && e.kind == ERR_CANCELLED);
	OK(registry_borrow(r, id, &op, &b, &e) == 0 && b.driven == &driven && b.sb == sb);
	registry_return(r, &b);
	registry_unref(r, sb);

	leaving = registry_start_removal(r, everyone, NULL, &taken);
	OK(leaving == sb && taken == &driven && !sb->driven);
	OK(!registry_start_removal(r, everyone, NULL, &taken)); /* only once */
	OK(registry_borrow(r, id, &op, &b, &e) < 0 && strstr(e.msg, "is removing"));
	OK(registry_wait_idle(r, sb, &op, &e) == 0 && registry_count(r) == 1);
	registry_forget(r, leaving);
	OK(registry_count(r) == 0 && !registry_has(r, id));
	OK(registry_borrow(r, id, &op, &b, &e) < 0 && e.kind == ERR_NOT_FOUND);
}

/* A sandbox that could not be made leaves no trace. */
static void test_failed_making(struct registry *r)
{
	struct op op = op_for_cleanup(10);
	struct sandbox *sb = add(r, 1, &op);

	registry_forget(r, sb);
	OK(registry_count(r) == 0);
}

static void test_prefix(struct registry *r)
{
	struct op op = op_for_cleanup(10);
	struct sandbox *a = add(r, 1, &op), *b = add(r, 1, &op);
	char got[16] = "", prefix[16];
	struct err e;

	/* Ids are random: makes two that begin alike. */
	snprintf(a->id, sizeof(a->id), "abcd000001");
	snprintf(b->id, sizeof(b->id), "abcd000002");
	OK(registry_resolve(r, "abcd000002", got, &e) == 0);
	STR_IS(got, "abcd000002");
	OK(registry_resolve(r, "abcd0000", got, &e) < 0 && e.kind == ERR_INVALID);
	STR_IS(e.msg, "several sandboxes begin with abcd0000");
	snprintf(b->id, sizeof(b->id), "ffff000002");
	OK(registry_resolve(r, "abcd", got, &e) == 0);
	STR_IS(got, "abcd000001");
	OK(registry_resolve(r, "abc", got, &e) < 0 && e.kind == ERR_NOT_FOUND);
	OK(registry_resolve(r, "", got, &e) < 0 && e.kind == ERR_NOT_FOUND);
	OK(registry_resolve(r, "abcd000001x", got, &e) < 0);
	OK(registry_resolve(r, "evil\x1b[2J\n", got, &e) < 0);
	STR_IS(e.msg, "no sandbox evil\\x1b[2J\\x0a; see what there is: moat ls");
	snprintf(prefix, sizeof(prefix), "%s", "ffff");
	OK(registry_detach(r, prefix, &e) == 0 && b->lease == 0 && a->lease == 1);
	registry_forget(r, a);
	registry_forget(r, b);
}

struct worker {
	struct registry *r;
	char id[16];
	struct op op;
	struct borrower b;
	struct err e;
	bool borrowed;
	int rc;
};

/* An operation that borrows the sandbox and waits until it is cancelled. */
static void *work(void *arg)
{
	struct worker *w = arg;

	if (registry_borrow(w->r, w->id, &w->op, &w->b, &w->e) < 0)
		abort();
	__atomic_store_n(&w->borrowed, true, __ATOMIC_RELEASE);
	w->rc = op_pause(&w->op, 60, &w->e);
	if (w->rc < 0)
		registry_explain(w->r, &w->b, &w->e);
	registry_return(w->r, &w->b);
	return NULL;
}

static void test_removal_cancels(struct registry *r)
{
	struct op op = op_for_cleanup(30), brief = op_for_cleanup(0.05);
	struct sandbox *sb = add(r, 1, &op), *leaving;
	struct worker w = {.r = r};
	struct driver_sandbox *taken = NULL;
	char want[64];
	pthread_t thread;
	struct borrower held;
	struct op held_op;
	struct err e;

	OK(registry_running(r, sb, &driven, true, &e) == 0 && sb->lease == 0);
	memcpy(w.id, sb->id, sizeof(w.id));
	snprintf(want, sizeof(want), "sandbox %s was removed", sb->id);
	registry_unref(r, sb);
	OK(op_init(&w.op, "w", 0, &e) == 0 && op_init(&held_op, "h", 0, &e) == 0);
	OK(registry_borrow(r, w.id, &held_op, &held, &e) == 0);
	pthread_create(&thread, NULL, work, &w);
	OK(EVENTUALLY(__atomic_load_n(&w.borrowed, __ATOMIC_ACQUIRE)));

	leaving = registry_start_removal(r, everyone, NULL, &taken);
	OK(leaving == sb && op_cancelled(&w.op) && op_cancelled(&held_op));
	pthread_join(thread, NULL);
	OK(w.rc < 0 && w.e.kind == ERR_UNAVAILABLE);
	STR_IS(w.e.msg, want);
	/* One operation still borrows it: the driver's sandbox must not be freed yet. */
	OK(registry_wait_idle(r, sb, &brief, &e) < 0 && e.kind == ERR_TIMEOUT);
	err_set(&e, ERR_BACKEND, "other trouble");
	registry_explain(r, &held, &e);
	STR_IS(e.msg, "other trouble");
	registry_return(r, &held);
	OK(registry_wait_idle(r, sb, &op, &e) == 0);
	registry_forget(r, leaving);
	op_done(&w.op);
	op_done(&held_op);
}

static void test_cancel_making(struct registry *r)
{
	struct sandbox *a, *b;
	uint64_t lease = 5;
	struct op one, two;
	struct err e;

	OK(op_init(&one, "1", 0, &e) == 0 && op_init(&two, "2", 0, &e) == 0);
	a = add(r, 5, &one);
	b = add(r, 6, &two);
	OK(registry_cancel_making(r, of_lease, &lease) == 1);
	OK(op_cancelled(&one) && !op_cancelled(&two));
	registry_forget(r, a);
	OK(registry_cancel_making(r, of_lease, &lease) == 0);
	registry_forget(r, b);
	op_done(&one);
	op_done(&two);
}

static struct sandbox *add_standby(struct registry *r, uint64_t lease, struct standby *st)
{
	struct op op = op_for_cleanup(10);
	struct sandbox *sb = add(r, lease, &op);
	struct err e;

	sb->standby = st;
	if (registry_running(r, sb, &driven, false, &e) < 0)
		abort();
	registry_unref(r, sb);
	return sb;
}

static unsigned rings(const struct standby *st)
{
	uint64_t count = 0;

	return read(st->wake_fd, &count, sizeof(count)) < 0 ? 0 : (unsigned)count;
}

static const char *shown_state(struct registry *r, const struct sandbox *sb)
{
	static char text[32];
	auto_json json_t *all = NULL;
	struct err e;

	if (registry_to_json(r, sb->id, &all, &e) < 0)
		abort();
	snprintf(text, sizeof(text), "%s",
		json_string_value(json_object_get(json_array_get(all, 0), "state")));
	return text;
}

static void remove_one(struct registry *r)
{
	struct driver_sandbox *taken = NULL;

	registry_forget(r, registry_start_removal(r, everyone, NULL, &taken));
}

/* In standby: only the client that gets the sandbox can use it. */
static void test_standby(struct registry *r)
{
	struct standby mine = {.key = "a", .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	struct standby other = {.key = "b", .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	struct op op = op_for_cleanup(10);
	auto_json json_t *labels = json_pack("{s:s}", "sample", "1");
	struct sandbox_taker by = {
		.key = "a", .labels = labels, .lease = 5, .owner_pid = 55, .op = &op};
	struct sandbox *old = add_standby(r, 1, &mine), *own = add_standby(r, 5, &mine);
	struct borrower b = {0}, c = {0};
	struct standby_figures f;
	struct err e;

	add_standby(r, 5, &other);
	STR_IS(shown_state(r, old), "standby");
	OK(registry_borrow(r, old->id, &op, &b, &e) < 0 && strstr(e.msg, "standby"));
	OK(registry_detach(r, old->id, &e) < 0 && old->lease == 1);
	f = registry_standby(r, &mine);
	OK(f.ready == 0 && f.dead == 2);
	all_alive = true;
	f = registry_standby(r, &mine);
	OK(f.ready == 2 && f.dead == 0 && f.making == 0 && f.taken == 0 && rings(&mine) == 0);

	OK(registry_take_standby(r, &by, &b, &e) == 1 && b.sb == own &&
		b.driven == &driven); /* not those of other keepers */
	OK(own->lease == 5 && own->owner_pid == 55 && own->labels == labels && !own->standby);
	STR_IS(shown_state(r, own), "running");
	OK(rings(&mine) == 1 && registry_standby(r, &mine).taken == 1);
	OK(registry_take_standby(r, &by, &c, &e) == 1 && c.sb == old && old->lease == 5);
	registry_return(r, &c);
	OK(registry_take_standby(r, &by, &c, &e) == 0); /* the one that is left has another spec */
	registry_return(r, &b);
	OK(registry_borrow(r, own->id, &op, &b, &e) == 0);
	registry_return(r, &b);

	by.key = "b";
	all_alive = false;
	OK(registry_take_standby(r, &by, &b, &e) == 0); /* a dead one is not handed over */
	OK(rings(&other) == 0 && registry_standby(r, &other).dead == 1);
	remove_one(r);
	OK(rings(&other) == 1 && registry_standby(r, &other).dead == 0);
	remove_one(r);
	remove_one(r);
	OK(registry_count(r) == 0);
	close(mine.wake_fd);
	close(other.wake_fd);
}

static const char *label(const struct sandbox *sb, const char *name)
{
	return json_string_value(json_object_get(sb->labels, name));
}

/* A name stands for its sandbox wherever an id does, as long as the sandbox lives. */
static void test_names(struct registry *r)
{
	struct sandbox *demo, *first, *second, *plain;
	struct err e;
	char got[16];

	demo = add_named(r, "demo", false, &e);
	OK(demo && registry_resolve(r, "demo", got, &e) == 0 && strcmp(got, demo->id) == 0);
	STR_IS(label(demo, "name"), "demo");
	STR_IS(label(demo, "eval"), "e1");
	OK(!add_named(r, "demo", false, &e) && e.kind == ERR_INVALID && strstr(e.msg, demo->id));
	OK(registry_check_name(r, "demo", &e) < 0 && registry_check_name(r, "Demo", &e) == 0);
	OK(registry_resolve(r, "dem", got, &e) < 0 && e.kind == ERR_NOT_FOUND);

	first = add_named(r, "demo", true, &e);
	second = add_named(r, "demo", true, &e);
	STR_IS(first->name, "demo-1");
	STR_IS(label(second, "name"), "demo-2");
	registry_forget(r, first);
	first = add_named(r, "demo", true, &e);
	STR_IS(first->name, "demo-1"); /* free again */

	plain = add(r, 1, NULL);
	OK(!plain->name[0] && !label(plain, "name"));
	OK(registry_resolve(r, "", got, &e) < 0 && e.kind == ERR_NOT_FOUND);
	registry_forget(r, plain);
	registry_forget(r, first);
	registry_forget(r, second);
	registry_forget(r, demo);
	OK(registry_check_name(r, "demo", &e) == 0 && registry_count(r) == 0);
}

/* A name that is the beginning of another sandbox's id means the one with the name. */
static void test_name_and_prefix(struct registry *r)
{
	struct sandbox *a, *b;
	char prefix[8], got[16];
	struct err e;

	while ((a = add(r, 1, NULL))->id[0] < 'a') /* a name begins with a letter */
		registry_forget(r, a);
	snprintf(prefix, sizeof(prefix), "%.4s", a->id);
	OK(registry_resolve(r, prefix, got, &e) == 0 && strcmp(got, a->id) == 0);
	b = add_named(r, prefix, false, &e);
	OK(b && registry_resolve(r, prefix, got, &e) == 0 && strcmp(got, b->id) == 0);
	registry_forget(r, a);
	registry_forget(r, b);
}

static void test_standby_name(struct registry *r)
{
	struct standby mine = {.key = "a", .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	struct op op = op_for_cleanup(10);
	auto_json json_t *labels = json_pack("{s:s}", "sample", "1");
	struct sandbox_taker by = {
		.key = "a", .labels = labels, .lease = 5, .name = "demo", .op = &op};
	struct sandbox *ready = add_standby(r, 1, &mine);
	struct borrower b;
	struct err e;

	all_alive = true;
	OK(registry_take_standby(r, &by, &b, &e) == 1 && b.sb == ready);
	STR_IS(ready->name, "demo");
	STR_IS(label(ready, "name"), "demo");
	STR_IS(label(ready, "sample"), "1");
	registry_return(r, &b);
	ready = add_standby(r, 1, &mine);
	OK(registry_take_standby(r, &by, &b, &e) < 0 && e.kind == ERR_INVALID);
	OK(ready->standby == &mine); /* it stays ready for others */
	all_alive = false;
	remove_one(r);
	remove_one(r);
	close(mine.wake_fd);
}

static void test_json(struct registry *r)
{
	struct op op = op_for_cleanup(10);
	struct sandbox *first = add(r, 1, &op), *second = add(r, 0, &op);
	auto_json json_t *all = NULL, *one = NULL;
	json_t *vms, *none = NULL;
	struct err e;

	OK(registry_running(r, first, &driven, false, &e) == 0);
	OK(registry_to_json(r, NULL, &all, &e) == 0 && json_array_size(all) == 2);
	STR_IS(json_string_value(json_object_get(json_array_get(all, 0), "id")), first->id);
	STR_IS(json_string_value(json_object_get(json_array_get(all, 1), "state")), "creating");
	OK(json_is_true(json_object_get(json_array_get(all, 1), "detached")));
	OK(registry_to_json(r, first->id, &one, &e) == 0 && json_array_size(one) == 1);
	vms = json_object_get(json_array_get(one, 0), "vms");
	OK(json_array_size(vms) == 2);
	STR_IS(json_string_value(json_object_get(json_array_get(vms, 0), "state")), "running");
	OK(json_is_true(json_object_get(json_array_get(vms, 0), "default")));
	OK(!json_object_get(json_array_get(vms, 0), "error"));
	STR_IS(json_string_value(json_object_get(json_array_get(vms, 1), "error")),
		"fell \\xff over");
	OK(json_is_false(json_object_get(json_array_get(vms, 1), "sandbox")));
	OK(registry_to_json(r, "nonesuch", &none, &e) < 0 && e.kind == ERR_NOT_FOUND && !none);
	registry_unref(r, first);
	registry_unref(r, second); /* the registry frees the sandboxes that are left */
}

int main(void)
{
	struct registry *r = NULL;
	struct err e;

	OK(registry_new(&r, &e) == 0 && registry_count(r) == 0);
	test_life(r);
	test_failed_making(r);
	test_prefix(r);
	test_removal_cancels(r);
	test_cancel_making(r);
	test_standby(r);
	test_names(r);
	test_name_and_prefix(r);
	test_standby_name(r);
	test_json(r);
	registry_free(r);
	registry_free(NULL);
	return tap_done();
}
