#include "runner-peer.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void pause_ms(int ms)
{
	poll(NULL, 0, ms);
}

static _Noreturn void give_up(const char *why)
{
	printf("Bail out! %s: %s\n", why, strerror(errno));
	exit(1);
}

bool wait_until(bool (*is_so)(const void *arg), const void *arg)
{
	for (uint64_t end = now_ms() + PATIENCE_MS; now_ms() < end;) {
		if (is_so(arg))
			return true;
		pause_ms(10);
	}
	return false;
}

/* A zombie counts as ended: its new parent may reap it late. */
bool process_gone(const void *pid)
{
	char path[64], line[512] = "", *after;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", *(const pid_t *)pid);
	f = fopen(path, "r");
	if (!f)
		return true;
	after = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	fclose(f);
	return !after || after[2] == 'Z';
}

/* Ignores signals as some parents do, even one that the C library keeps from programs. */
static void ignore_signals(void)
{
	unsigned long ignore[4] = {(unsigned long)SIG_IGN};

	syscall(SYS_rt_sigaction, SIGTERM, ignore, NULL, (size_t)8);
	syscall(SYS_rt_sigaction, 32, ignore, NULL, (size_t)8);
}

void peer_start_raw(struct peer *p)
{
	const char *runner = getenv("MOAT_GUEST");
	int fds[2];

	if (!runner)
		runner = MOAT_GUEST_TEST;
	setvbuf(stdout, NULL, _IOLBF, 0); /* if the test hangs and is stopped, this says where */
	*p = (struct peer){.next_id = 1, .in_cap = 1 << 20};
	p->in = malloc(p->in_cap);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		give_up("socketpair");
	fflush(stdout);
	p->pid = fork();
	if (p->pid < 0)
		give_up("fork");
	if (p->pid == 0) {
		dup2(fds[1], 0);
		dup2(fds[1], 1);
		ignore_signals();
		execl(runner, "moat-guest", "serve", "-", (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	p->fd = fds[0];
}

void peer_start(struct peer *p)
{
	peer_start_raw(p);
	if (!peer_hello(p, PATIENCE_MS))
		give_up("no answer to HELLO");
}

void peer_stop(struct peer *p)
{
	int status;

	close(p->fd);
	waitpid(p->pid, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		printf("# the runner ended with status %#x\n", status);
		give_up("the runner failed");
	}
	free(p->in);
}

void peer_write(struct peer *p, const void *bytes, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = send(p->fd, (const char *)bytes + at, len - at, MSG_NOSIGNAL);

		if (n < 0)
			give_up("send");
		at += (size_t)n;
	}
}

void peer_send(struct peer *p, const struct wire_msg *m, const void *body, size_t len)
{
	uint8_t head[FRAME_HEADER + WIRE_HEAD_MAX];
	size_t n = wire_encode(m, head + FRAME_HEADER);

	frame_encode_header(head, (uint32_t)n, (uint32_t)len);
	peer_write(p, head, FRAME_HEADER + n);
	peer_write(p, body, len);
}

static void consume(struct peer *p, size_t n)
{
	memmove(p->in, p->in + n, p->in_len - n);
	p->in_len -= n;
}

static bool fill(struct peer *p, int timeout_ms)
{
	struct pollfd pfd = {.fd = p->fd, .events = POLLIN};
	ssize_t n;

	if (poll(&pfd, 1, timeout_ms) <= 0)
		return false;
	n = read(p->fd, p->in + p->in_len, p->in_cap - p->in_len);
	if (n <= 0)
		give_up("the runner hung up");
	p->in_len += (size_t)n;
	return true;
}

bool peer_next(struct peer *p, int timeout_ms, struct wire_msg *ret, struct peer_bytes *ret_body)
{
	static char body[WIRE_PIECE + 1];
	uint64_t limit = now_ms() + (uint64_t)timeout_ms;
	struct frame f;

	for (;;) {
		long n = frame_decode(p->in, p->in_len, &wire_to_host, &f);
		uint64_t now = now_ms();

		if (n < 0 || (n > 0 && !wire_decode(f.head, f.head_len, ret)))
			give_up("bad frame from the runner");
		if (n > 0) {
			memcpy(body, f.body, f.body_len);
			body[f.body_len] = 0;
			*ret_body = (struct peer_bytes){.p = body, .len = f.body_len};
			consume(p, (size_t)n);
			return true;
		}
		if (!fill(p, now < limit ? (int)(limit - now) : 0))
			return false;
	}
}

bool peer_hello(struct peer *p, int timeout_ms)
{
	static uint8_t count;
	struct wire_msg m = {.type = WIRE_HELLO, .version = WIRE_VERSION}, reply;
	struct peer_bytes body;

	memset(m.nonce, ++count, sizeof(m.nonce));
	peer_send(p, &m, NULL, 0);
	while (peer_next(p, timeout_ms, &reply, &body))
		if (reply.type == WIRE_HELLO_REPLY && memcmp(reply.nonce, m.nonce, WIRE_NONCE) == 0)
			return reply.version == WIRE_VERSION && reply.code == (uint32_t)p->pid;
	return false;
}

void peer_append(struct peer_bytes *b, struct peer_bytes more)
{
	if (b->len + more.len + 1 > b->cap) {
		b->cap = (b->len + more.len + 1) * 2;
		b->p = realloc(b->p, b->cap);
	}
	memcpy(b->p + b->len, more.p, more.len);
	b->len += more.len;
	b->p[b->len] = 0;
}

static void add_string(struct peer_bytes *b, const char *text)
{
	const char *s = text ? text : "";

	peer_append(b, (struct peer_bytes){.p = (char *)(uintptr_t)s, .len = strlen(s) + 1});
}

void job_start(struct peer *p, struct job *j)
{
	struct wire_msg m = j->msg;
	struct peer_bytes body = {0};

	j->id = m.id = p->next_id++;
	j->credit = WIRE_WINDOW;
	if (!m.type)
		m.type = WIRE_EXEC;
	if (m.type == WIRE_EXEC && j->input)
		m.flags |= WIRE_EXEC_STDIN;
	add_string(&body, j->user);
	add_string(&body, j->cwd);
	for (const char *const *s = j->argv; m.type == WIRE_EXEC && *s; s++, m.count++)
		add_string(&body, *s);
	for (const char *const *s = j->env; s && *s; s++, m.count2++)
		add_string(&body, *s);
	if (m.type != WIRE_EXEC)
		add_string(&body, j->path);
	if (m.type == WIRE_SYMLINK)
		add_string(&body, j->target);
	peer_send(p, &m, body.p, body.len);
	free(body.p);
}

static void feed(struct peer *p, struct job *j)
{
	struct wire_msg m = {.type = WIRE_DATA, .id = j->id, .stream = WIRE_BODY};

	while (!j->ended && j->input && j->sent < j->input_len && j->credit) {
		size_t n = j->input_len - j->sent;

		n = n > WIRE_PIECE ? WIRE_PIECE : n;
		n = n > j->credit ? j->credit : n;
		peer_send(p, &m, (const char *)j->input + j->sent, n);
		j->sent += n;
		j->credit -= n;
	}
	if (j->ended || !j->input || j->sent < j->input_len || j->eof_sent || j->keep_input_open)
		return;
	m.type = WIRE_EOF;
	peer_send(p, &m, NULL, 0);
	j->eof_sent = true;
}

static void take(struct peer *p, struct job *j, const struct wire_msg *m, struct peer_bytes body)
{
	struct wire_msg credit = {.type = WIRE_CREDIT, .id = j->id, .count = (uint32_t)body.len};
	struct peer_bytes none = {.p = (char[]){""}};

	switch (m->type) {
	case WIRE_CREDIT:
		j->credit += m->count;
		break;
	case WIRE_DATA:
		peer_append(m->stream == WIRE_STDERR ? &j->err : &j->out, body);
		peer_send(p, &credit, NULL, 0);
		break;
	case WIRE_EXIT:
	case WIRE_DONE:
		j->end = *m;
		j->ended = true;
		peer_append(&j->message, body);
		peer_append(&j->out, none);
		peer_append(&j->err, none);
		break;
	default:
		give_up("unexpected message");
	}
}

void jobs_finish(struct peer *p, struct job *jobs, size_t n)
{
	struct peer_bytes body;
	struct wire_msg m;
	size_t ended = 0;

	for (size_t i = 0; i < n; i++)
		feed(p, &jobs[i]);
	while (ended < n) {
		struct job *j = NULL;

		errno = ETIMEDOUT;
		if (!peer_next(p, PATIENCE_MS, &m, &body))
			give_up("waiting for the runner");
		for (size_t i = 0; i < n && !j; i++)
			j = jobs[i].id == m.id ? &jobs[i] : NULL;
		if (!j || j->ended)
			continue; /* of a job whose messages the test reads itself */
		take(p, j, &m, body);
		ended += j->ended;
		feed(p, j);
	}
}

void job_run(struct peer *p, struct job *j)
{
	job_start(p, j);
	jobs_finish(p, j, 1);
}

void job_free(struct job *j)
{
	free(j->out.p);
	free(j->err.p);
	free(j->message.p);
}

void job_order(struct peer *p, struct job *j, const struct wire_msg *m)
{
	struct wire_msg order = *m;

	order.id = j->id;
	peer_send(p, &order, NULL, 0);
}

int process_children(pid_t parent, pid_t *ret, int n)
{
	char path[300], line[512], *after;
	struct dirent *entry;
	DIR *d = opendir("/proc");
	int found = 0, ppid;

	while (d && (entry = readdir(d))) {
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
		f = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? fopen(path, "r") : NULL;
		if (!f)
			continue;
		after = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
		fclose(f);
		if (after && after[2] != 'Z' && sscanf(after + 3, "%d", &ppid) == 1 &&
			ppid == parent && found < n)
			ret[found++] = atoi(entry->d_name);
	}
	if (d)
		closedir(d);
	return found;
}
