#include "daemon/daemon.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/figures.h"
#include "daemon/removal.h"
#include "daemon/session.h"
#include "daemon/stale.h"
#include "daemon/standby.h"
#include "proto/proto.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/json.h"
#include "util/thread/lock.h"
#include "util/system/log.h"
#include "util/system/rendezvous.h"
#include "util/str.h"
#include "util/thread/thread.h"

#define RECLAIM_SECONDS      60.0
#define AFTER_SECONDS        1800.0 /* for reclaiming in the background */
#define LOOK_MS              1000   /* between looks whether we are idle, and can be reached */
#define DRAIN_SECONDS        90.0
#define WRONG_CONFIG_SECONDS 1.0
#define LOCK_SECONDS         50.0 /* for another daemon to end; less than a client waits for us */
#define ACCEPT_AGAIN         0.1

/* Sessions beyond the limit: one may want to stop the daemon, the others are refused soon. */
enum { SPARE_SESSIONS_MAX = 8 };

int daemon_driver(struct daemon *d, const char *name, struct driver **ret, struct err *e)
{
	for (unsigned i = 0; i < SPEC_DRIVERS; i++) {
		*ret = d->drivers[i];
		if (*ret && strcmp((*ret)->ops->name, name) == 0)
			return 0;
	}
	return err_set(
		e, ERR_UNSUPPORTED, "no driver \"%s\"; there are: qemu, proxmox, vagrant", name);
}

void daemon_stop(struct daemon *d)
{
	uint64_t one = 1;

	if (write(d->stop_fd, &one, sizeof(one)) < 0)
		abort(); /* an eventfd with room: cannot fail */
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
		/* We have no file descriptor left, say. The listener stays readable, so we pause
		 * before we look again. */
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			op_pause(&wait, ACCEPT_AGAIN, &e);
		return;
	}
	{
		auto_unlock struct lock *held = lock_take(&d->mu);
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
		auto_unlock struct lock *held = lock_take(&d->mu);
		if (d->sessions || d->reclaims_late)
			return false;
		seconds = (double)(now_ns() - d->idle_since_ns) / 1e9;
	}
	return seconds >= d->config.idle_exit;
}

/* Looks after the socket's file. *lost: it is gone, and that was logged. */
static void keep_rendezvous(struct rendezvous *rendezvous, bool *lost)
{
	struct err e;
	int rc = rendezvous_keep(rendezvous, &e);

	if (rc > 0)
		log_msg(NULL, LOG_WARN, "the socket was gone; serving %s again",
			rendezvous->paths->socket);
	else if (rc < 0 && !*lost)
		log_err(NULL, LOG_ERROR, &e, "the socket is gone, and clients cannot reach us");
	*lost = rc < 0;
}

/* Wakes guards that somebody has stopped: they would neither end what is below them nor tell of its
 * end, for which a build of an image waits as long as it takes. */
static void wake_guards(void)
{
	siginfo_t child = {0};

	while (waitid(P_ALL, 0, &child, WSTOPPED | WNOHANG) == 0 && child.si_pid > 0) {
		kill(child.si_pid, SIGCONT);
		child.si_pid = 0;
	}
}

static int accept_loop(struct daemon *d, struct rendezvous *rendezvous, int sigfd,
	bool leave_when_idle, struct err *e)
{
	bool lost = false;

	for (;;) {
		struct pollfd fds[] = {{.fd = rendezvous->listener, .events = POLLIN},
			{.fd = sigfd, .events = POLLIN}, {.fd = d->stop_fd, .events = POLLIN}};

		if (poll(fds, 3, LOOK_MS) < 0 && errno != EINTR)
			return err_sys(e, errno, "poll");
		if (fds[0].revents)
			accept_one(d, rendezvous->listener);
		if (fds[1].revents || fds[2].revents)
			return 0;
		if (leave_when_idle && idle_too_long(d)) {
			log_msg(NULL, LOG_INFO, "idle: leaving");
			return 0;
		}
		keep_rendezvous(rendezvous, &lost);
		wake_guards();
	}
}

static bool any(const struct sandbox *sb, void *arg)
{
	(void)sb;
	(void)arg;
	return true;
}

static int count_entry(void *arg, const struct journal_entry *t, struct err *e)
{
	(void)t;
	(void)e;
	++*(unsigned *)arg;
	return 0;
}

static void tell_what_is_left(struct daemon *d)
{
	unsigned left = 0;
	struct err e;

	if (journal_each_entry(d->journal, NULL, count_entry, &left, &e) == 0 && left)
		log_msg(NULL, LOG_WARN,
			"%u entries are left in the journal; the next daemon "
			"reclaims them",
			left);
}

static void await_sessions(struct daemon *d)
{
	struct op op = op_for_cleanup(DRAIN_SECONDS);
	struct err e;

	for (;;) {
		{
			auto_unlock struct lock *held = lock_take(&d->mu);
			if (d->sessions == 0)
				return;
		}
		wake_guards(); /* somebody may wait for what one of them guards */
		if (op_pause(&op, 0.02, &e) < 0) {
			log_msg(NULL, LOG_ERROR, "some connections would not end");
			return;
		}
	}
}

static void drain(struct daemon *d)
{
	struct err e;

	for (unsigned i = 0; i < SPEC_DRIVERS; i++)
		if (d->drivers[i] && d->drivers[i]->ops->hurry)
			d->drivers[i]->ops->hurry(d->drivers[i]);
	{
		auto_unlock struct lock *held = lock_take(&d->mu);
		for (struct session *s = d->session_list; s; s = s->next)
			op_cancel(&s->op);
	}
	await_sessions(d);
	removal_run(d, NULL, any, NULL, &e);
	/* One that waited for its sandbox's removal may still be at it, with the daemon's parts. */
	await_sessions(d);
	tell_what_is_left(d);
}

static int find_parts(struct daemon *d, struct err *e)
{
	char *helper = NULL, *ssh = NULL;

	if (paths_find_part("moat-helper", &helper, e) < 0)
		return -1;
	d->env.helper_path = helper;
	/* Without a runner, operations go through the plain guest agent; doctor says so. */
	runners_find(&d->env.runners);
	if (paths_find_part("moat-ssh", &ssh, e) == 0)
		d->env.ssh_path = ssh;
	if (paths_find_part("recipes", &d->recipes, e) < 0 &&
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

/* The templates in memory that no VM uses may take an eighth of it, but no more than this. */
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
	struct store_config store = {.data_dir = d->paths.data,
		.cache_dir = d->paths.cache,
		.mirror = d->config.image_mirror,
		.download_max = (uint64_t)d->config.download_max_mb << 20,
		.auth_file = d->config.registry_auth_file,
		.container_disk = (uint64_t)d->config.container_disk_gb << 30,
		.container_cache = (uint64_t)d->config.container_cache_mb << 20,
		.proxmox_repository = d->config.proxmox_repository};

	if (find_parts(d, e) < 0)
		return -1;
	file_write_atomic_sweep(d->paths.state); /* nobody else may write there now */
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
	d->env.changes = registry_changes(d->registry);
	d->env.accel = d->config.accel;
	d->env.qemu = d->config.qemu;
	d->env.boot_timeout = d->config.boot_timeout;
	d->env.outage_timeout = d->config.outage_timeout;
	d->env.image_mirror = d->config.image_mirror;
	d->env.download_max = store.download_max;
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
	runners_free(&d->env.runners);
	free((char *)d->env.ssh_path);
}

/* Keeps lines for the first gc. Later ones are in the log only. */
static void keep_line(void *arg, const char *text)
{
	struct daemon *d = arg;
	auto_unlock struct lock *held = lock_take(&d->mu);

	if (d->reclaimed)
		json_array_append_new(d->reclaimed, json_text(text));
}

static void reclaim_leftovers(struct daemon *d)
{
	struct op op = op_for_cleanup(RECLAIM_SECONDS);
	struct reclaim_req req = {.said = keep_line, .arg = d, .when = RECLAIM_AT_START};
	struct err e;

	/* The daemon serves even if an entry cannot be reclaimed; it stays in the journal. */
	d->reclaimed = json_array();
	if (reclaim_run(d, &op, &req, &e) < 0)
		log_err(&op, LOG_ERROR, &e,
			"not everything that an earlier daemon left could be removed");
	if (templates_drop_stale(d, NULL, NULL, &e) < 0)
		log_err(&op, LOG_WARN, &e, "stale templates stay");
}

/* Reclaiming that may take minutes, on a thread of its own: clients must not wait for it. */
struct late_reclaim {
	struct daemon *d;
	struct op op;
	pthread_t thread;
	bool started;
};

static void *late_reclaim_main(void *arg)
{
	struct late_reclaim *late = arg;
	struct daemon *d = late->d;
	struct reclaim_req req = {.said = keep_line, .arg = d, .when = RECLAIM_AFTER_START};
	struct err e;

	if (reclaim_run(d, &late->op, &req, &e) < 0)
		log_err(&late->op, LOG_ERROR, &e,
			"not everything that an earlier daemon left could be removed");
	auto_unlock struct lock *held = lock_take(&d->mu);
	d->reclaims_late = false;
	return NULL;
}

static void late_reclaim_start(struct late_reclaim *late, struct daemon *d)
{
	struct err e;

	late->d = d;
	if (op_init(&late->op, "reclaim", AFTER_SECONDS, &e) < 0)
		return;
	d->reclaims_late = true; /* without the lock: no other thread runs yet */
	late->started = thread_start(&late->thread, "reclaim", late_reclaim_main, late, &e) == 0;
	if (!late->started) {
		d->reclaims_late = false;
		op_done(&late->op);
	}
}

static void late_reclaim_end(struct late_reclaim *late)
{
	if (!late->started)
		return;
	op_cancel(&late->op);
	thread_join(late->thread);
	op_done(&late->op);
}

/* Sets what the whole process has in common, before the first thread. */
static int set_up_process(const struct config *c, int *ret_sigfd, struct err *e)
{
	static const char *const levels[] = {"debug", "info", "warn", "error"};
	struct rlimit files;
	sigset_t mask;

	umask(077);
	/* No core dumps, since we hold passwords. A limit of 0 would not stop dumps that go to a
	 * program, 1 does. */
	if (setrlimit(RLIMIT_CORE, &(struct rlimit){1, 1}) < 0)
		log_msg(NULL, LOG_WARN, "cannot turn off core dumps");
	signal(SIGPIPE, SIG_IGN);
	/* An arena for each thread would cost more than the threads themselves. */
	mallopt(M_ARENA_MAX, 2);
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

static int serve(struct daemon *d, const struct daemon_options *opts, struct rendezvous *rendezvous,
	int sigfd, struct err *e)
{
	struct late_reclaim late = {0};
	int rc;

	if (open_parts(d, e) < 0)
		return -1;
	if (!d->config_wrong.kind)
		reclaim_leftovers(d);
	if (rendezvous_listen(rendezvous, e) < 0)
		return -1;
	d->idle_since_ns = now_ns(); /* waiting for file locks and reclaiming may have taken long */
	log_msg(NULL, LOG_INFO, "moat %s serves %s", MOAT_VERSION, d->paths.socket);
	if (opts->ready_fd >= 0) {
		if (write(opts->ready_fd, "ready\n", 6) != 6)
			log_msg(NULL, LOG_WARN, "nobody waits for us");
		close(opts->ready_fd);
	}
	if (!d->config_wrong.kind)
		late_reclaim_start(&late, d);
	rc = accept_loop(d, rendezvous, sigfd, opts->leave_when_idle, e);
	/* New clients start a new daemon, which waits for our locks. */
	rendezvous_stop_listening(rendezvous);
	late_reclaim_end(&late);
	drain(d);
	log_msg(NULL, LOG_INFO, "ended");
	return rc;
}

/* sigfd: a signal ends the waiting. */
static int take_rendezvous(
	const struct paths *paths, int sigfd, struct rendezvous *ret, struct err *e)
{
	struct op op = {.cancel_fd = sigfd, .deadline_ns = OP_NO_DEADLINE};
	struct op patience = op_within(&op, LOCK_SECONDS);

	return rendezvous_take(&patience, paths, ret, e);
}

/* A wrong file ends the daemon, unless it was started to say what is wrong. Such a daemon does
 * nothing else, and leaves with its client: the next one reads the file again. */
static int read_config(struct daemon *d, const struct daemon_options *opts, struct err *e)
{
	if (config_load(d->paths.config, &d->config, e) == 0)
		return 0;
	if (!opts->any_config)
		return -1;
	d->config_wrong = *e;
	if (config_defaults(&d->config, e) < 0)
		return -1;
	d->config.idle_exit = WRONG_CONFIG_SECONDS;
	return 0;
}

int daemon_main(const struct daemon_options *opts, struct err *e)
{
	auto_fd int sigfd = -1;
	struct rendezvous rendezvous = RENDEZVOUS_INIT;
	struct daemon d = {.stop_fd = -1, .started_ns = now_ns()};
	int rc = -1;

	lock_init(&d.mu, "daemon.mu", LOCK_LEAF);
	d.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (d.stop_fd < 0)
		return err_sys(e, errno, "eventfd");
	turn_init(&d.reclaiming);
	figures_init(&d.figures);
	if (paths_load(&d.paths, e) == 0 && paths_make(&d.paths, e) == 0 &&
		read_config(&d, opts, e) == 0 && set_up_process(&d.config, &sigfd, e) == 0 &&
		take_rendezvous(&d.paths, sigfd, &rendezvous, e) == 0)
		rc = serve(&d, opts, &rendezvous, sigfd, e);
	close_parts(&d);
	rendezvous_leave(&rendezvous);
	config_free(&d.config);
	paths_free(&d.paths);
	turn_done(&d.reclaiming);
	figures_done(&d.figures);
	close(d.stop_fd);
	lock_done(&d.mu);
	return rc;
}
