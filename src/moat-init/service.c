#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "moat-init/common/files.h"
#include "moat-init/init.h"
#include "moat-guest/common/users.h"
#include "util/auto.h"

#define CGROUP       "/sys/fs/cgroup/service"
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

enum {
	PAUSE_MS = 100, /* before the first restart; doubles */
	PAUSE_MAX_MS = 60000,
	STEADY_MS = 10000, /* who ran for so long is started again at once */
	ADDRESS_MS = 15000,
	CANNOT_RUN = 126,
	NOT_FOUND = 127,
	SIGNAL_BASE = 128,
};

/* A child that cannot become the service tells why. */
struct failure {
	int error;
	char what[120];
};

int service_open(struct init *in)
{
	struct supervised *s = &in->service;

	if (pipe2(s->out, O_CLOEXEC) < 0)
		return errno;
	/* A service that opens /dev/stdout gets this very pipe: only our end may not block. */
	fcntl(s->out[0], F_SETFL, O_NONBLOCK);
	make_dirs(CGROUP);
	return ring_open(&in->log);
}

void service_drain(struct init *in)
{
	char piece[PIECE];
	ssize_t n;

	/* A service that writes for ever must not keep us from all else. */
	for (int i = 0; i < RING_BYTES / PIECE; i++) {
		n = read(in->service.out[0], piece, sizeof(piece));
		if (n <= 0)
			return;
		ring_put(&in->log, piece, (size_t)n);
	}
}

void service_kill_rest(void)
{
	put_text(CGROUP "/cgroup.kill", "1");
}

void service_signal(struct init *in, int number)
{
	if (in->service.stage == SERVICE_RUNS)
		kill(in->service.pid, number);
}

/* ---- the child ---- */

static const char *variable(char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return *env + len + 1;
	return NULL;
}

/* Along the PATH that the service itself will see. Returns the most telling errno. */
static int execute(char *const *argv, char *const *env)
{
	const char *at = variable(env, "PATH"), *end;
	char path[4096];
	int error = ENOENT;

	if (strchr(argv[0], '/') || !argv[0][0]) {
		execve(argv[0], argv, env);
		return errno;
	}
	for (at = at ? at : DEFAULT_PATH;; at = end + 1) {
		end = strchrnul(at, ':');
		if (snprintf(path, sizeof(path), "%.*s%s%s", (int)(end - at), at,
			    end > at ? "/" : "", argv[0]) < (int)sizeof(path)) {
			execve(path, argv, env);
			if (errno != ENOENT && errno != ENOTDIR)
				error = errno;
		}
		if (!*end)
			return error;
	}
}

/* Containers have a variable HOME, unless the image or the spec sets one. */
static char **with_home(const struct service *spec, const struct user *user)
{
	size_t n = 0;
	char **env;

	while (spec->env[n])
		n++;
	env = calloc(n + 3, sizeof(*env));
	if (!env)
		return NULL;
	memcpy(env, spec->env, n * sizeof(*env));
	if (!variable(spec->env, "HOME") && asprintf(&env[n++], "HOME=%s", user->home) < 0)
		return NULL;
	if (!variable(spec->env, "PATH"))
		env[n] = (char *)(uintptr_t) "PATH=" DEFAULT_PATH;
	return env;
}

static void fail(struct failure *f, int error, const char *what)
{
	f->error = error ? error : EINVAL;
	snprintf(f->what, sizeof(f->what), "%s", what);
}

/* Returns only if it fails. */
static void become(const struct init *in, struct failure *f)
{
	const struct supervised *s = &in->service;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct user user;
	char **env, text[120];
	int error;

	setsid();
	put_text(CGROUP "/cgroup.procs", "0");
	sigprocmask(SIG_SETMASK, &in->old_mask, NULL);
	for (size_t i = 0; i < s->spec.n_limits; i++)
		if (setrlimit(s->spec.limits[i].resource, &s->spec.limits[i].value) < 0)
			return fail(f, errno, "a limit cannot be set");
	error = user_find(s->spec.user, &user);
	if (error) {
		snprintf(
			text, sizeof(text), "its user \"%.60s\" is not in the image", s->spec.user);
		return fail(f, error, text);
	}
	/* /dev/stdout is the pipe: the service may open it. */
	if (fchown(s->out[1], user.uid, user.gid) < 0 || dup2(null, 0) < 0 ||
		dup2(s->out[1], 1) < 0 || dup2(s->out[1], 2) < 0)
		return fail(f, errno, "its output");
	error = make_dirs(s->spec.cwd);
	if (chdir(s->spec.cwd) < 0)
		return fail(f, error ? error : errno, s->spec.cwd);
	env = with_home(&s->spec, &user);
	if (!env)
		return fail(f, ENOMEM, "its environment");
	error = user_become(&user);
	if (error)
		return fail(f, error, "its user");
	fail(f, execute(s->spec.argv, env), s->spec.argv[0]);
}

/* ---- starting ---- */

/* 0, or fills f. The pipe closes when the child has become the service. */
static int start(struct init *in, struct failure *f)
{
	struct supervised *s = &in->service;
	int result[2];
	ssize_t n;

	*f = (struct failure){0};
	if (pipe2(result, O_CLOEXEC) < 0) {
		fail(f, errno, "it cannot be started");
		return -1;
	}
	s->pid = fork();
	if (s->pid == 0) {
		become(in, f);
		if (write(result[1], f, sizeof(*f)) < 0)
			_exit(CANNOT_RUN);
		_exit(f->error == ENOENT ? NOT_FOUND : CANNOT_RUN);
	}
	close(result[1]);
	if (s->pid < 0)
		fail(f, errno, "it cannot be started");
	n = s->pid < 0 ? 0 : read(result[0], f, sizeof(*f));
	close(result[0]);
	s->started = init_now_ms();
	s->starts++;
	if (!f->error && n <= 0) {
		s->stage = SERVICE_RUNS;
		return 0;
	}
	f->what[sizeof(f->what) - 1] = 0;
	return -1;
}

static void log_line(struct init *in, const char *text)
{
	ring_put(&in->log, "moat: ", 6);
	ring_put(&in->log, text, strlen(text));
	ring_put(&in->log, "\n", 1);
}

static void begin(struct init *in)
{
	struct supervised *s = &in->service;
	struct failure f;
	char why[220];

	if (start(in, &f) == 0) {
		clients_started(in, NULL);
		return;
	}
	snprintf(why, sizeof(why), "%s: %s", f.what, strerror(f.error));
	log_line(in, why);
	s->stage = SERVICE_ENDED;
	s->code = f.error == ENOENT ? NOT_FOUND : CANNOT_RUN;
	clients_started(in, why);
	clients_ended(in);
}

const char *service_take(struct init *in, char *record, size_t len, char *why, size_t size)
{
	struct supervised *s = &in->service;
	const char *what;
	int error;

	if (s->stage != SERVICE_NONE)
		return "there is a service already";
	error = record_parse((struct record){record, len}, &s->spec, &what);
	if (error) {
		snprintf(why, size, "%.100s: %s", what, strerror(error));
		return why;
	}
	s->record = record;
	s->pause = PAUSE_MS;
	s->stage = SERVICE_WAITS;
	s->next = init_now_ms() + ADDRESS_MS;
	return NULL;
}

/* ---- its end ---- */

static bool starts_again(const struct supervised *s)
{
	switch (s->spec.restart) {
	case RESTART_ALWAYS:
		return true;
	case RESTART_ON_FAILURE:
		return s->code && (!s->spec.restart_max || s->starts <= s->spec.restart_max);
	case RESTART_NO:
		return false;
	}
	return false;
}

void service_ended(struct init *in, int status)
{
	struct supervised *s = &in->service;

	service_kill_rest(); /* as the processes of a container end with its first */
	service_drain(in);
	s->pid = 0;
	s->code = WIFSIGNALED(status) ? SIGNAL_BASE + WTERMSIG(status) : WEXITSTATUS(status);
	if (in->stopping || !starts_again(s)) {
		s->stage = SERVICE_ENDED;
		clients_ended(in);
		return;
	}
	if (init_now_ms() - s->started >= STEADY_MS)
		s->pause = PAUSE_MS;
	s->stage = SERVICE_PAUSES;
	s->next = init_now_ms() + s->pause;
	s->pause = s->pause * 2 > PAUSE_MAX_MS ? PAUSE_MAX_MS : s->pause * 2;
}

void service_timers(struct init *in, int64_t now)
{
	struct supervised *s = &in->service;
	bool addressed = in->addresses >= s->spec.addresses;

	if (s->stage == SERVICE_WAITS && !s->spec.argv[0]) {
		if (addressed || s->next <= now) {
			s->stage = SERVICE_ENDED;
			clients_started(in, NULL);
			clients_ended(in);
		}
	} else if ((s->stage == SERVICE_WAITS && (addressed || s->next <= now)) ||
		   (s->stage == SERVICE_PAUSES && s->next <= now)) {
		begin(in);
	}
}

int64_t service_next(const struct init *in)
{
	const struct supervised *s = &in->service;

	if (s->stage == SERVICE_WAITS && in->addresses >= s->spec.addresses)
		return 0;
	return s->stage == SERVICE_WAITS || s->stage == SERVICE_PAUSES ? s->next : INT64_MAX;
}
