/* Builds: failing, cancelled, killed, with much output, and many at once. */
#include <pthread.h>

#include "store/test-store.h"

static void test_failures(struct store *st)
{
	struct op op = plain_op(60), brief = plain_op(0.5);
	struct image *img = NULL;
	struct err e;

	OK(store_build(st, &op, "unknown", false, &img, &e) < 0 && e.kind == ERR_NOT_FOUND);
	OK(strstr(e.msg, "failing") && !strstr(e.msg, "shared"));
	OK(store_build(st, &op, "../failing", false, &img, &e) < 0 && e.kind == ERR_INVALID);
	OK(store_build(st, &op, "shared", false, &img, &e) < 0 && e.kind == ERR_NOT_FOUND);
	OK(store_build(st, &op, "failing", false, &img, &e) < 0 && e.kind == ERR_BACKEND);
	OK(strstr(e.msg, "building failing: no space on the moon (log: "));
	OK(e.sys == 3);
	OK(path_exists(at("data/images/log/failing.log")));
	OK(store_build(st, &op, "silent", false, &img, &e) < 0 && e.kind == ERR_BACKEND);
	OK(store_build(st, &op, "empty", false, &img, &e) < 0 && strstr(e.msg, "manifest.json"));
	OK(store_build(st, &op, "missing-file", false, &img, &e) < 0 && strstr(e.msg, "vmlinux"));
	OK(store_build(st, &op, "symlink", false, &img, &e) < 0 && strstr(e.msg, "vmlinux"));
	OK(store_build(st, &brief, "forever", false, &img, &e) < 0 && e.kind == ERR_TIMEOUT);
	OK(!img && store_is_clean() && count_entries(at("data/images"), "sha256-") == 0);
}

struct news {
	int n;
	uint64_t done, total;
	char last[256];
};

static void on_progress(void *arg, const char *text, uint64_t done, uint64_t total)
{
	struct news *news = arg;

	news->n++;
	news->done = done;
	news->total = total;
	snprintf(news->last, sizeof(news->last), "%s", text);
}

static void test_progress(struct store *st)
{
	struct news news = {0};
	struct op op = plain_op(60);
	auto_image struct image *img = NULL, *loud = NULL;
	struct stat log;
	struct err e;

	op.on_progress = on_progress;
	op.progress_arg = &news;
	OK(store_build(st, &op, "garbage", false, &img, &e) == 0);
	OK(news.n == 3); /* "building garbage" and two good lines */
	STR_IS(news.last, "last words\\x1b[31m");
	OK(news.done == 2 && news.total == 2);
	OK(!path_exists(at("data/images/log/none")));
	OK(count_entries(img->dir, "") == 3); /* no more than vmlinux, manifest.json, lock */
	OK(store_build(st, &op, "loud", false, &loud, &e) == 0);
	OK(stat(at("data/images/log/loud.log"), &log) == 0 && log.st_size > 1000000 &&
		log.st_size < 17 * 1024 * 1024);
}

struct builder {
	struct store *st;
	const char *name;
	bool rebuild;
	struct op op;
	struct image *img;
	struct news news;
	struct err e;
	int rc;
};

static void *run_builder(void *arg)
{
	struct builder *b = arg;

	b->op.on_progress = on_progress;
	b->op.progress_arg = &b->news;
	b->rc = store_build(b->st, &b->op, b->name, b->rebuild, &b->img, &b->e);
	return NULL;
}

/* Counts the runs of a recipe: it writes a line each time. */
static size_t runs_of(const char *name)
{
	auto_free char *text = NULL;
	size_t len = 0;
	struct err e;

	return file_read(at("cache/%s", name), 4096, &text, &len, &e) < 0 ? 0 : len / 2;
}

static void test_threads(struct store *st)
{
	enum { N = 6 };
	struct builder b[N] = {0};
	pthread_t threads[N];
	int good = 0, waited = 0;

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < N; i++) {
			b[i] = (struct builder){.st = st,
				.name = "counted",
				.op = plain_op(60),
				.rebuild = round == 1};
			pthread_create(&threads[i], NULL, run_builder, &b[i]);
		}
		good = waited = 0;
		for (int i = 0; i < N; i++) {
			pthread_join(threads[i], NULL);
			good += b[i].rc == 0;
			waited += strstr(b[i].news.last, "waiting for another build") != NULL;
			if (b[i].rc < 0)
				printf("# %s\n", b[i].e.msg);
			image_free(b[i].img);
		}
		OK(good == N && waited == N - 1);
		OK(runs_of("counted") == (size_t)round + 1);
	}
	OK(store_is_clean());
}

static void test_processes(void)
{
	pid_t a = start_self("build", "counted-too"), b = start_self("build", "counted-too"),
	      c = start_self("build", "counted-too");

	OK(end_of(a) == 0 && end_of(b) == 0 && end_of(c) == 0);
	OK(runs_of("counted-too") == 1);
	OK(store_is_clean());
}

static bool process_lives(const char *pid)
{
	char path[64], state = 'Z';
	auto_free char *text = NULL;
	size_t len;
	struct err e;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	if (file_read(path, 4096, &text, &len, &e) < 0)
		return false;
	if (strrchr(text, ')'))
		state = strrchr(text, ')')[2];
	return state != 'Z' && state != 'X';
}

/* The recipe's shell, and a child that it left in the background. */
static bool recipe_ends(void)
{
	auto_free char *text = NULL;
	struct op op = plain_op(30);
	char *second;
	size_t len;
	struct err e;

	if (file_read(at("cache/pids"), 100, &text, &len, &e) < 0 || !(second = strchr(text, ' ')))
		return false;
	*second++ = 0;
	second[strcspn(second, "\n")] = 0;
	while (process_lives(text) || process_lives(second))
		if (op_pause(&op, 0.02, &e) < 0)
			return false;
	return true;
}

static void test_cancel(struct store *st)
{
	struct builder b = {.st = st, .name = "forever"};
	pthread_t thread;
	struct err e;

	unlink(at("cache/pids"));
	OK(op_init(&b.op, "test", 60, &e) == 0);
	pthread_create(&thread, NULL, run_builder, &b);
	OK(wait_for(at("cache/pids"), true));
	op_cancel(&b.op);
	pthread_join(thread, NULL);
	OK(b.rc < 0 && b.e.kind == ERR_CANCELLED);
	OK(recipe_ends());
	OK(store_is_clean());
	op_done(&b.op);
}

static void test_killed(void)
{
	struct store *st;
	pid_t builder;

	unlink(at("cache/pids"));
	builder = start_self("build", "forever");
	OK(wait_for(at("cache/pids"), true));
	OK(count_entries(at("data/images"), "tmp-") == 1);
	store_close(open_store()); /* another daemon starts while the build is running */
	OK(count_entries(at("data/images"), "tmp-") == 1);
	kill(builder, SIGKILL);
	OK(end_of(builder) == 128 + SIGKILL);
	OK(recipe_ends());
	/* The guard, which ends last, must have released the lock too. */
	for (int i = 0; i < 500 && count_entries(at("data/images"), "tmp-"); i++) {
		struct op op = plain_op(60);
		struct err e;

		op_pause(&op, 0.02, &e);
		store_close(open_store());
	}
	OK(count_entries(at("data/images"), "tmp-") == 0);
	st = open_store();
	OK(store_is_clean());
	test_cancel(st); /* and the name can be built again */
	store_close(st);
}

/* Many threads, and another process, use, replace, remove and collect the same names. */
struct stress {
	struct store *st;
	unsigned seed;
	int bad;
	char what[1100];
};

static void stress_step(struct stress *s, const char *name, struct op *op)
{
	struct image *img = NULL;
	struct image_use *use = NULL;
	uint64_t freed;
	struct err e;
	unsigned dice = (unsigned)rand_r(&s->seed) % 10;
	bool good = true;

	if (dice < 2)
		good = store_build(s->st, op, name, dice == 0, &img, &e) == 0;
	else if (dice < 3)
		good = store_remove(s->st, name, &freed, &e) == 0 || e.kind == ERR_NOT_FOUND ||
		       e.kind == ERR_BUSY;
	else if (dice < 4)
		good = store_gc(s->st, op, NULL, NULL, &e) == 0;
	else if (store_use(s->st, name, &img, &use, &e) == 0) {
		op_pause(op, 0.001 * (1 + rand_r(&s->seed) % 20), &e);
		good = path_exists(img->kernel);
		snprintf(e.msg, sizeof(e.msg), "%s went away in use", img->kernel);
		store_unuse(use);
	} else {
		good = e.kind == ERR_NOT_FOUND || e.kind == ERR_BUSY;
	}
	image_free(img);
	if (good)
		return;
	s->bad++;
	snprintf(s->what, sizeof(s->what), "%u: %s", dice, e.msg);
}

static void *run_stress(void *arg)
{
	struct stress *s = arg;
	struct op op = plain_op(60);
	int64_t until = now_ns() + 3000000000;

	while (now_ns() < until)
		stress_step(s, rand_r(&s->seed) % 2 ? "dice" : "dice-too", &op);
	return NULL;
}

static int stress(unsigned seed)
{
	enum { N = 4 };
	struct stress s[N] = {0};
	pthread_t threads[N];
	struct store *st = open_store();
	int bad = 0;

	for (unsigned i = 0; i < N; i++) {
		s[i] = (struct stress){.st = st, .seed = seed + i};
		pthread_create(&threads[i], NULL, run_stress, &s[i]);
	}
	for (int i = 0; i < N; i++) {
		pthread_join(threads[i], NULL);
		bad += s[i].bad;
		if (s[i].bad)
			printf("# %d times, last: %s\n", s[i].bad, s[i].what);
	}
	store_close(st);
	return bad;
}

static void test_stress(struct store *st)
{
	auto_image_list struct image_list list = {0};
	pid_t other = start_self("stress", "100");
	struct op op;
	struct err e;
	int named;

	OK(stress(200) == 0);
	OK(end_of(other) == 0);
	op = plain_op(60);
	if (!OK(store_gc(st, &op, NULL, NULL, &e) == 0))
		printf("# %s\n", e.msg);
	OK(store_is_clean());
	OK(store_list(st, NULL, &list, &e) == 0);
	named = count_entries(at("data/images/names"), "");
	OK((int)list.n == named);
	OK(count_entries(at("data/images"), "sha256-") <= named);
}

static void write_recipes(void)
{
	write_recipe("failing", "echo trying >&2\necho no space on the moon >&2\nexit 3");
	write_recipe("silent", "exit 1");
	write_recipe("empty", "true");
	write_recipe("missing-file", MAKE_IMAGE("x") "rm $1/vmlinux");
	write_recipe("symlink", MAKE_IMAGE("x") "ln -sf /etc/passwd $1/vmlinux");
	write_recipe("forever", "sleep 1000 &\necho $$ $! >$MOAT_CACHE_DIR/pids.new\n"
				"mv $MOAT_CACHE_DIR/pids.new $MOAT_CACHE_DIR/pids\nsleep 1000");
	write_recipe("garbage",
		"echo progress 1 2 first\necho progress x\nprintf 'progress 9'\n"
		"echo\nhead -c 5000 /dev/urandom | tr -d p\necho\n"
		"mkdir $1/extra $1/extra/more\necho x >$1/extra/file\n"
		"printf 'progress 2 2 last words\\033[31m'\n" MAKE_IMAGE("garbage"));
	write_recipe("loud",
		"head -c 100000000 /dev/zero\nyes | head -c 100000000 >&2\n" MAKE_IMAGE("loud"));
	write_recipe("counted", "echo x >>$MOAT_CACHE_DIR/$MOAT_IMAGE\nsleep 1\n" MAKE_IMAGE("c"));
	write_recipe(
		"counted-too", "echo x >>$MOAT_CACHE_DIR/$MOAT_IMAGE\nsleep 1\n" MAKE_IMAGE("d"));
	write_recipe("dice", MAKE_IMAGE("dice") "date +%s >>$1/vmlinux");
	write_recipe("dice-too", MAKE_IMAGE("dice") "date +%s >>$1/vmlinux");
	write_file(at("recipes/shared.sh"), "# not a recipe\n");
}

int main(int argc, char **argv)
{
	struct store *st;

	home_begin(argc, argv);
	if (argc == 4 && strcmp(argv[1], "build") == 0) {
		struct builder b = {.st = open_store(), .name = argv[3], .op = plain_op(60)};

		run_builder(&b);
		image_free(b.img);
		store_close(b.st);
		return b.rc < 0;
	}
	if (argc == 4 && strcmp(argv[1], "stress") == 0)
		return stress((unsigned)atoi(argv[3])) != 0;
	write_recipes();
	st = open_store();
	test_failures(st);
	test_progress(st);
	test_threads(st);
	test_processes();
	test_cancel(st);
	test_killed();
	test_stress(st);
	store_close(st);
	home_end();
	return tap_done();
}
