#include "daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/removal.h"
#include "daemon/sandbox-make.h"
#include "daemon/session.h"
#include "daemon/stale.h"
#include "proto/proto.h"
#include "util/auto.h"
#include "util/io.h"
#include "util/json.h"
#include "util/lock.h"
#include "util/log.h"
#include "util/str.h"

#define RECLAIM_SECONDS 60.0
#define AFTER_SECONDS   1800.0 /* for reclaiming in the background */
#define IDLE_LOOK_MS    1000
#define DRAIN_SECONDS   90.0
#define LOCK_SECONDS    50.0 /* for a daemon that is ending; less than our starter waits for us */
#define LOCK_AGAIN      0.05
#define ACCEPT_AGAIN    0.1

enum { SPARE_SESSIONS_MAX = 8 }; /* others knock meanwhile, and are soon gone */

int daemon_driver(struct daemon *d, const char *name, struct driver **ret, struct err *e)
{
	for (unsigned i = 0; i < SPEC_DRIVERS; i++) {
		*ret = d->drivers[i];
		if (*ret && strcmp((*ret)->ops->name, name) == 0)
			return 0;
	}
	return err_set(e, ERR_UNSUPPORTED, "driver: this moat has no %s driver", name);
}

void daemon_stop(struct daemon *d)
{
	uint64_t one = 1;

	if (write(d->stop_fd, &one, sizeof(one)) < 0)
		abort(); /* an eventfd with room: cannot fail */
}

static int open_socket(const char *path, struct sockaddr_un *ret_addr, struct err *e)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*ret_addr = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(ret_addr->sun_path, path, strlen(path)); /* paths_load checked the length */
	return fd < 0 ? err_sys(e, errno, "socket") : fd;
}

static bool somebody_serves(const char *path)
{
	struct sockaddr_un addr;
	struct err ignored;
	auto_fd int fd = open_socket(path, &addr, &ignored);

	return fd >= 0 &&
	       (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 || errno == EAGAIN);
}

/*
 * One daemon per runtime directory and per state directory; the locks end with the process. One
 * that holds its lock but serves nobody is ending, or has just been killed: we wait for it.
 */
static int lock_dir(
	const struct op *op, const char *dir, const char *socket, int *ret_fd, struct err *e)
{
	auto_free char *path = NULL;
	auto_fd int fd = -1;

	if (str_printf(&path, e, "%s/daemon.lock", dir) < 0)
		return -1;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (somebody_serves(socket) || op_pause(op, LOCK_AGAIN, e) < 0)
			return err_set(e, ERR_BUSY, "another daemon is using %s", dir);
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

/* sigfd: whoever wants to end us need not wait with us. */
static int lock_dirs(
	const struct paths *p, int sigfd, int *ret_runtime, int *ret_state, struct err *e)
{
	struct op op = {.cancel_fd = sigfd, .deadline_ns = OP_NO_DEADLINE};
	struct op patience = op_within(&op, LOCK_SECONDS);

	if (lock_dir(&patience, p->runtime, p->socket, ret_runtime, e) < 0)
		return -1;
	/* A daemon with another socket may be using this one for as long as it likes. */
	patience = op_within(&op, 1);
	return lock_dir(&patience, p->state, p->socket, ret_state, e);
}

static int listen_on(const char *path, int *ret_fd, struct err *e)
{
	struct sockaddr_un addr;
	auto_fd int fd = open_socket(path, &addr, e);

	if (fd < 0)
		return -1;
	/* We hold the lock of this directory: a socket that is here belongs to nobody. */
	if (unlink(path) < 0 && errno != ENOENT)
		return err_sys(e, errno, "%s", path);
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || chmod(path, 0600) < 0 ||
		listen(fd, 128) < 0)
		return err_sys(e, errno, "%s", path);
	*ret_fd = take_fd(&fd);
	return 0;
}

static bool peer_allowed(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
	       (peer.uid == getuid() || peer.uid == 0);
}

static void accept_one(struct daemon *d, int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct op wait = op_for_cleanup(ACCEPT_AGAIN * 2);
	bool spare, full;
	struct err e;

	if (fd < 0) {
		/* Out of files, say: the listener stays readable, and looking at once would not
		 * help. */
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			op_pause(&wait, ACCEPT_AGAIN, &e);
		return;
	}
	{
		auto_unlock pthread_mutex_t *held = lock_take(&d->mu);
		spare = d->sessions - d->spare_sessions >= PROTO_CONNECTIONS_MAX;
		full = spare && d->spare_sessions >= SPARE_SESSIONS_MAX;
	}
	if (full || !peer_allowed(fd)) {
		log_msg(NULL, LOG_WARN,
			full ? "too many connections" : "a connection of another user");
		close(fd);
		return;
	}
	if (session_start(d, fd, spare, &e) < 0)
		log_err(NULL, LOG_ERROR, &e, "cannot serve a connection");
}

static bool idle_too_long(struct daemon *d)
{
	double seconds;

	if (d->config.idle_exit <= 0 || registry_count(d->registry))
		return false;
	{
		auto_unlock pthread_mutex_t *held = lock_take(&d->mu);
		if (d->sessions || d->errand_runs)
			return false;
		seconds = (double)(now_ns() - d->idle_since_ns) / 1e9;
	}
	return seconds >= d->config.idle_exit;
}

static int accept_loop(
	struct daemon *d, int listener, int sigfd, bool leave_when_idle, struct err *e)
{
	struct pollfd fds[] = {{.fd = listener, .events = POLLIN}, {.fd = sigfd, .events = POLLIN},
		{.fd = d->stop_fd, .events = POLLIN}};

	for (;;) {
		if (poll(fds, 3, leave_when_idle ? IDLE_LOOK_MS : -1) < 0 && errno != EINTR)
			return err_sys(e, errno, "poll");
		if (fds[0].revents)
			accept_one(d, listener);
		if (fds[1].revents || fds[2].revents)
			return 0;
		if (leave_when_idle && idle_too_long(d)) {
			log_msg(NULL, LOG_INFO, "idle: leaving");
			return 0;
		}
	}
}

static bool any(const struct sandbox *sb, void *arg)
{
	(void)sb;
	(void)arg;
	return true;
}

static void drain(struct daemon *d)
{
	struct op op = op_for_cleanup(DRAIN_SECONDS);
	struct err e;

	{
		auto_unlock pthread_mutex_t *held = lock_take(&d->mu);
		for (struct session *s = d->session_list; s; s = s->next)
			op_cancel(&s->op);
	}
	for (;;) {
		{
			auto_unlock pthread_mutex_t *held = lock_take(&d->mu);
			if (d->sessions == 0)
				break;
		}
		if (op_pause(&op, 0.02, &e) < 0) {
			log_msg(NULL, LOG_ERROR, "some connections would not end");
			break;
		}
	}
	removal_run(d, any, NULL, &e);
}

static int find_parts(struct daemon *d, struct err *e)
{
	char *helper = NULL, *runner = NULL, *ssh = NULL;

	if (paths_find_part("moat-helper", &helper, e) < 0)
		return -1;
	d->env.helper_path = helper;
	/* Without the runner commands go through the guest agent; doctor says so. */
	if (paths_find_part("moat-guest", &runner, e) == 0)
		d->env.runner_path = runner;
	if (paths_find_part("moat-ssh", &ssh, e) == 0)
		d->env.ssh_path = ssh;
	if (paths_find_part("share/moat/recipes", &d->recipes, e) < 0 &&
		paths_find_part("share/recipes", &d->recipes, e) < 0)
		return -1;
	return 0;
}

static int open_drivers(struct daemon *d, struct err *e)
{
	for (unsigned i = 0; i < SPEC_DRIVERS; i++) {
		const struct driver_ops *ops = driver_find(spec_driver_name((enum spec_driver)i));

		if (ops && ops->open(&d->env, &d->drivers[i], e) < 0)
			return err_wrap(e, "driver %s", ops->name);
	}
	return 0;
}

/* Idle templates may keep an eighth of the memory, but no more than this. */
static const uint64_t idle_memory_max = (uint64_t)2 << 30;

static int open_templates(struct daemon *d, struct err *e)
{
	struct templates_config cfg = {
		.data_dir = d->paths.data, .disk_max = (uint64_t)d->config.templates_max_mb << 20};
	struct admission_figures f;

	if (d->config.templates_max_mb == 0)
		return 0;
	admission_figures(d->admission, &f);
	cfg.memory_max = (uint64_t)f.total_mb << 17;
	if (cfg.memory_max > idle_memory_max)
		cfg.memory_max = idle_memory_max;
	return templates_open(&cfg, &d->templates, e);
}

static int open_parts(struct daemon *d, struct err *e)
{
	auto_free char *db = NULL;
	struct store_config store = {.data_dir = d->paths.data, .cache_dir = d->paths.cache};

	if (find_parts(d, e) < 0)
		return -1;
	store.recipe_dir = d->recipes;
	store.helper_path = d->env.helper_path;
	if (str_printf(&db, e, "%s/journal.db", d->paths.state) < 0 ||
		journal_open(db, &d->journal, e) < 0 || store_open(&store, &d->store, e) < 0 ||
		registry_new(&d->registry, e) < 0 ||
		admission_new(d->config.memory_keep_mb, &d->admission, e) < 0 ||
		open_templates(d, e) < 0)
		return -1;
	admission_on_shortage(d->admission, standby_give_way, d);
	d->env.paths = &d->paths;
	d->env.store = d->store;
	d->env.templates = d->templates;
	d->env.journal = d->journal;
	d->env.accel = d->config.accel;
	d->env.qemu = d->config.qemu;
	d->env.boot_timeout = d->config.boot_timeout;
	d->env.image_mirror = d->config.image_mirror;
	return open_drivers(d, e);
}

static void close_parts(struct daemon *d)
{
	for (unsigned i = 0; i < SPEC_DRIVERS; i++)
		if (d->drivers[i])
			d->drivers[i]->ops->close(d->drivers[i]);
	admission_free(d->admission);
	registry_free(d->registry);
	templates_close(d->templates);
	store_close(d->store);
	journal_close(d->journal);
	json_decref(d->reclaimed);
	free(d->recipes);
	free((char *)d->env.helper_path);
	free((char *)d->env.runner_path);
	free((char *)d->env.ssh_path);
}

/* Until somebody asks; after that the log has it. */
static void keep_line(void *arg, const char *text)
{
	struct daemon *d = arg;
	auto_unlock pthread_mutex_t *held = lock_take(&d->mu);

	if (d->reclaimed)
		json_array_append_new(d->reclaimed, json_text(text));
}

static void reclaim_leftovers(struct daemon *d)
{
	struct op op = op_for_cleanup(RECLAIM_SECONDS);
	struct reclaim_req req = {.said = keep_line, .arg = d, .when = RECLAIM_AT_START};
	struct err e;

	/* A thing that will not go must not keep the daemon from serving; it stays in the journal.
	 */
	d->reclaimed = json_array();
	if (reclaim_run(d, &op, &req, &e) < 0)
		log_err(&op, LOG_ERROR, &e,
			"not everything that an earlier daemon left could be removed");
	if (templates_drop_stale(d, NULL, NULL, &e) < 0)
		log_err(&op, LOG_WARN, &e, "stale templates stay");
}

/* Reclaiming that may take minutes: nobody who wants a sandbox should wait for it. */
struct errand {
	struct daemon *d;
	struct op op;
	pthread_t thread;
	bool started;
};

static void *errand_main(void *arg)
{
	struct errand *errand = arg;
	struct daemon *d = errand->d;
	struct reclaim_req req = {.said = keep_line, .arg = d, .when = RECLAIM_AFTER_START};
	struct err e;

	pthread_setname_np(pthread_self(), "moat-reclaim");
	if (reclaim_run(d, &errand->op, &req, &e) < 0)
		log_err(&errand->op, LOG_ERROR, &e,
			"not everything that an earlier daemon left could be removed");
	auto_unlock pthread_mutex_t *held = lock_take(&d->mu);
	d->errand_runs = false;
	return NULL;
}

static void errand_start(struct errand *errand, struct daemon *d)
{
	struct err e;

	errand->d = d;
	if (op_init(&errand->op, "reclaim", AFTER_SECONDS, &e) < 0)
		return;
	d->errand_runs = true; /* nobody else looks yet */
	errand->started = pthread_create(&errand->thread, NULL, errand_main, errand) == 0;
	if (!errand->started) {
		d->errand_runs = false;
		op_done(&errand->op);
	}
}

static void errand_end(struct errand *errand)
{
	if (!errand->started)
		return;
	op_cancel(&errand->op);
	pthread_join(errand->thread, NULL);
	op_done(&errand->op);
}

/* Process-wide state, before the first thread. */
static int set_up_process(const struct config *c, int *ret_sigfd, struct err *e)
{
	static const char *const levels[] = {"debug", "info", "warn", "error"};
	struct rlimit files;
	sigset_t mask;

	umask(077);
	/* No core dumps: we hold passwords. 1 also stops those that go to a program, 0 does not. */
	if (setrlimit(RLIMIT_CORE, &(struct rlimit){1, 1}) < 0)
		log_msg(NULL, LOG_WARN, "cannot turn off core dumps");
	signal(SIGPIPE, SIG_IGN);
	mallopt(M_ARENA_MAX,
		2); /* an arena per thread would cost more than the threads themselves */
	for (unsigned i = 0; i < ARRAY_LEN(levels); i++)
		if (strcmp(c->log_level, levels[i]) == 0)
			log_setup((enum log_level)i, -1);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &files) < 0)
			log_msg(NULL, LOG_WARN, "cannot raise the limit of open files");
	}
	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
		return err_sys(e, errno, "signals");
	*ret_sigfd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	return *ret_sigfd < 0 ? err_sys(e, errno, "signalfd") : 0;
}

static int serve(struct daemon *d, const struct daemon_options *opts, int sigfd, struct err *e)
{
	auto_fd int listener = -1;
	struct errand errand = {0};
	int rc;

	if (open_parts(d, e) < 0)
		return -1;
	reclaim_leftovers(d);
	if (listen_on(d->paths.socket, &listener, e) < 0)
		return -1;
	d->idle_since_ns = now_ns(); /* locks and what others left may have taken a while */
	log_msg(NULL, LOG_INFO, "moat %s serves %s", MOAT_VERSION, d->paths.socket);
	if (opts->ready_fd >= 0) {
		if (write(opts->ready_fd, "ready\n", 6) != 6)
			log_msg(NULL, LOG_WARN, "nobody waits for us");
		close(opts->ready_fd);
	}
	errand_start(&errand, d);
	rc = accept_loop(d, listener, sigfd, opts->leave_when_idle, e);
	/* New clients start a new daemon, which waits for our locks. */
	unlink(d->paths.socket);
	close(take_fd(&listener));
	errand_end(&errand);
	drain(d);
	log_msg(NULL, LOG_INFO, "ended");
	return rc;
}

int daemon_main(const struct daemon_options *opts, struct err *e)
{
	auto_fd int runtime_lock = -1, state_lock = -1, sigfd = -1;
	struct daemon d = {.stop_fd = -1, .started_ns = now_ns()};
	int rc = -1;

	pthread_mutex_init(&d.mu, NULL);
	d.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (d.stop_fd < 0)
		return err_sys(e, errno, "eventfd");
	if (turn_init(&d.reclaiming, e) < 0) {
		close(d.stop_fd);
		return -1;
	}
	if (paths_load(&d.paths, e) == 0 && paths_make(&d.paths, e) == 0 &&
		config_load(d.paths.config, &d.config, e) == 0 &&
		set_up_process(&d.config, &sigfd, e) == 0 &&
		lock_dirs(&d.paths, sigfd, &runtime_lock, &state_lock, e) == 0)
		rc = serve(&d, opts, sigfd, e);
	close_parts(&d);
	config_free(&d.config);
	paths_free(&d.paths);
	turn_done(&d.reclaiming);
	close(d.stop_fd);
	return rc;
}
