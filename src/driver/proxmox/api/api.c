#include "pve/api-parts.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pve/answer.h"
#include "pve/form.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/lock.h"
#include "util/str.h"

#define SILENCE_SECONDS 150.0 /* the server gives up on its own back end after 30 */
#define KEEP_SECONDS    3     /* it closes idle connections after 5 */
#define TICKET_SECONDS  3600  /* half of their life */
#define BUSY_PAUSE      0.5
enum { KEEP_MAX = 16, REQUESTS_MAX = 90, HEAD_ROOM = 8 * 1024, TRIES = 5 };

static void wipe_free(char *s)
{
	if (s)
		explicit_bzero(s, strlen(s));
	free(s);
}

void pve_wipe(struct buf *b)
{
	if (b->p)
		explicit_bzero(b->p, b->cap);
	buf_free(b);
}

void pve_api_free(struct pve_api *api)
{
	if (!api)
		return;
	while (api->idle) {
		struct pve_conn *c = api->idle;

		api->idle = c->next;
		pve_conn_close(c);
	}
	free(api->url);
	free(api->host);
	free(api->user);
	wipe_free(api->password);
	wipe_free(api->token);
	wipe_free(api->headers);
	wipe_free(api->ticket);
	wipe_free(api->csrf);
	turn_done(&api->login);
	pthread_mutex_destroy(&api->mu);
	free(api);
}
DEFINE_AUTO(auto_apip, struct pve_api, pve_api_free)

/* What every request has already: a second one would be taken for it, or make two of one request.
 */
static bool is_own_header(const struct pve_access *a, const char *line)
{
	static const char *const own[] = {"Host", "Cookie", "CSRFPreventionToken", "Content-Length",
		"Content-Type", "Transfer-Encoding", "Connection"};
	size_t n = strcspn(line, ":");

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (strlen(own[i]) == n && strncasecmp(line, own[i], n) == 0)
			return true;
	/* A proxy may want a login of its own, but a token is in that very header. */
	return !str_empty(a->token) && n == strlen("Authorization") &&
	       strncasecmp(line, "Authorization", n) == 0;
}

/* A line break in one would let it become another header. */
static int add_header_lines(const struct pve_access *a, char **ret, struct err *e)
{
	auto_buf struct buf b = {0};

	for (size_t i = 0; a->headers && a->headers[i]; i++) {
		size_t name = strcspn(a->headers[i], ": \t");

		if (strpbrk(a->headers[i], "\r\n") || name == 0 || a->headers[i][name] != ':')
			return err_set(e, ERR_INVALID, "extra_headers[%zu]: not a header", i);
		if (is_own_header(a, a->headers[i]))
			return err_set(e, ERR_INVALID, "extra_headers[%zu]: moat sets %.*s itself",
				i, (int)name, a->headers[i]);
		if (buf_printf(&b, e, "%s\r\n", a->headers[i]) < 0)
			return -1;
	}
	*ret = buf_take_str(&b);
	return *ret ? 0 : err_oom(e);
}

static int copy_login(struct pve_api *api, const struct pve_access *a, struct err *e)
{
	if (str_printf(&api->user, e, "%s@%s", a->user, a->realm) < 0)
		return -1;
	if (!str_empty(a->token)) {
		if (strpbrk(a->token, "\r\n"))
			return err_set(e, ERR_INVALID, "token: has a line break");
		return strchr(a->token, '!')
			       ? str_dup(a->token, &api->token, e)
			       : str_printf(&api->token, e, "%s!%s", api->user, a->token);
	}
	if (str_empty(a->password))
		return err_set(e, ERR_INVALID, "there is neither a password nor a token");
	return str_dup(a->password, &api->password, e);
}

int pve_api_new(const struct pve_access *a, struct pve_api **ret, struct err *e)
{
	__attribute__((cleanup(auto_apip))) struct pve_api *api = calloc(1, sizeof(*api));
	bool v6 = strchr(a->host, ':') != NULL && a->host[0] != '[';

	if (!api)
		return err_oom(e);
	pthread_mutex_init(&api->mu, NULL);
	if (a->host[0] == '\0' || strpbrk(a->host, "/@?# \r\n"))
		return err_set(e, ERR_INVALID, "host: not a host name or address");
	api->verify = a->verify_tls;
	if (!str_empty(a->fingerprint)) {
		if (conn_read_fingerprint(a->fingerprint, api->fingerprint, e) < 0)
			return -1;
		api->pinned = true;
	}
	if (turn_init(&api->login, e) < 0 ||
		str_printf(&api->host, e, v6 ? "[%s]:%u" : "%s:%u", a->host, a->port) < 0 ||
		str_printf(&api->url, e, "https://%s", api->host) < 0 ||
		copy_login(api, a, e) < 0 || add_header_lines(a, &api->headers, e) < 0)
		return -1;
	*ret = take_ptr(&api);
	return 0;
}

uint64_t pve_api_requests(const struct pve_api *api)
{
	return atomic_load(&api->requests);
}

int pve_conn_open(struct pve_api *api, const struct op *op, struct pve_conn **ret, struct err *e)
{
	struct conn_target t = {.url = api->url,
		.verify = api->verify,
		.fingerprint = api->pinned ? api->fingerprint : NULL};

	return conn_open(&t, op, ret, e);
}

/* A kept connection that the server has not closed, or a new one. */
static int take_conn(struct pve_api *api, const struct op *op, struct pve_conn **ret, struct err *e)
{
	for (;;) {
		auto_buf struct buf rubbish = {0};
		struct pve_conn *c;
		struct err ignored;
		bool fresh;

		{
			auto_unlock pthread_mutex_t *held = lock_take(&api->mu);
			c = api->idle;
			if (c) {
				api->idle = c->next;
				api->n_idle--;
			}
		}
		if (!c)
			return pve_conn_open(api, op, ret, e);
		fresh = now_ns() - c->idle_since_ns < KEEP_SECONDS * INT64_C(1000000000) &&
			c->requests < REQUESTS_MAX;
		if (fresh && pve_conn_recv_now(c, &rubbish, 1, &ignored) == 0) {
			*ret = c;
			return 0;
		}
		pve_conn_close(c);
	}
}

static void give_conn(struct pve_api *api, struct pve_conn *c, bool keep)
{
	if (keep) {
		auto_unlock pthread_mutex_t *held = lock_take(&api->mu);

		if (api->n_idle < KEEP_MAX) {
			c->requests++;
			c->idle_since_ns = now_ns();
			c->next = api->idle;
			api->idle = c;
			api->n_idle++;
			return;
		}
	}
	pve_conn_close(c);
}

/* ---- one request on one connection ---- */

static int read_answer(
	struct pve_conn *c, const struct op *op, struct http_answer *a, struct err *e)
{
	auto_buf struct buf in = {0};
	int head = 0;

	for (;;) {
		struct op part = op_within(op, SILENCE_SECONDS);
		ssize_t got = pve_conn_recv(c, &part, &in, SIZE_MAX, e);

		if (got < 0 && e->kind == ERR_TIMEOUT) {
			if (op_check(op, e) == 0)
				err_set(e, ERR_UNAVAILABLE, "the server has been silent for %g s",
					SILENCE_SECONDS);
			return -1;
		}
		if (got < 0)
			return head && e->kind == ERR_UNAVAILABLE ? http_body_end(a, e) : -1;
		if (!head) {
			head = http_head(buf_bytes(&in), a, e);
			if (head < 0)
				return -1;
			if (!head)
				continue;
			buf_drop(&in, a->head_len);
			if (a->status < 200) { /* "continue": the real one follows */
				head = 0;
				if (!in.len)
					continue;
				head = http_head(buf_bytes(&in), a, e);
				if (head < 0)
					return -1;
				if (!head)
					continue;
				buf_drop(&in, a->head_len);
			}
		}
		got = http_body(buf_bytes(&in), a, e);
		if (got < 0)
			return -1;
		buf_drop(&in, (size_t)got);
		if (a->complete) {
			a->keep = a->keep && in.len == 0;
			return 0;
		}
	}
}

int pve_exchange(struct pve_api *api, const struct op *op, const struct pve_request *rq,
	struct http_answer *a, struct err *e)
{
	struct pve_conn *c;
	bool sent = false;
	int rc;

	if (take_conn(api, op, &c, e) < 0)
		return -1;
	atomic_fetch_add(&api->requests, 1);
	rc = pve_conn_send(c, op, rq->head.p, rq->head.len, e);
	if (rc == 0 && rq->body)
		rc = rq->body(rq->arg, c, op, e);
	/* A request that is not whole is never acted on. */
	sent = rc == 0;
	if (sent) {
		rc = read_answer(c, op, a, e);
	} else if (rq->body && e->kind == ERR_UNAVAILABLE) {
		/* An upload that the server does not like is answered before it has all of it. */
		struct err ignored;

		rc = read_answer(c, op, a, &ignored);
	}
	give_conn(api, c, rc == 0 && sent && a->keep);
	if (rc < 0) {
		e->sys = sent ? PVE_NO_ANSWER : PVE_NOT_SENT;
		err_wrap(e, "%s", api->host);
	}
	return rc;
}

/* ---- logging in ---- */

static int add_base_headers(struct pve_api *api, struct buf *b, struct err *e)
{
	return buf_printf(b, e, "Host: %s\r\nUser-Agent: moat/" MOAT_VERSION "\r\n%s", api->host,
		api->headers);
}

/* A ticket and its token go into headers: a server that puts line breaks there is refused. */
static int keep_ticket(struct pve_api *api, json_t *data, struct err *e)
{
	const char *ticket = json_string_value(json_object_get(data, "ticket"));
	const char *csrf = json_string_value(json_object_get(data, "CSRFPreventionToken"));
	auto_free char *new_ticket = NULL, *new_csrf = NULL;

	/* There is a ticket then, too, but one that is good only for the second factor. */
	if (json_object_get(data, "NeedTFA"))
		return err_set(e, ERR_PERMISSION, "a second factor is asked for: use an API token");
	if (!ticket || !csrf || strpbrk(ticket, "\r\n;") || strpbrk(csrf, "\r\n"))
		return err_set(e, ERR_PERMISSION, "the server sent no ticket");
	if (str_dup(ticket, &new_ticket, e) < 0 || str_dup(csrf, &new_csrf, e) < 0)
		return -1;
	auto_unlock pthread_mutex_t *held = lock_take(&api->mu);
	wipe_free(api->ticket);
	wipe_free(api->csrf);
	api->ticket = take_ptr(&new_ticket);
	api->csrf = take_ptr(&new_csrf);
	api->ticket_ns = now_ns();
	return 0;
}

static int log_in(struct pve_api *api, const struct op *op, struct err *e)
{
	__attribute__((cleanup(pve_wipe))) struct buf head = {0}, form = {0};
	auto_http_answer struct http_answer a = {0};
	auto_json json_t *data = NULL;
	struct pve_request rq;

	/* Room at once: growing would leave copies of the password behind. */
	if (!buf_room(&head, HEAD_ROOM) || !buf_room(&form, HEAD_ROOM))
		return err_oom(e);
	if (buf_add_str(&form, "username=", e) < 0 ||
		form_escape(&form, api->user, strlen(api->user), e) < 0 ||
		buf_add_str(&form, "&password=", e) < 0 ||
		form_escape(&form, api->password, strlen(api->password), e) < 0 ||
		buf_add_str(&head, "POST /api2/json/access/ticket HTTP/1.1\r\n", e) < 0 ||
		add_base_headers(api, &head, e) < 0 ||
		buf_printf(&head, e,
			"Content-Type: application/x-www-form-urlencoded\r\n"
			"Content-Length: %zu\r\n\r\n",
			form.len) < 0 ||
		buf_add(&head, buf_data(&form), form.len, e) < 0)
		return -1;
	rq = (struct pve_request){.head = buf_bytes(&head)};
	if (pve_exchange(api, op, &rq, &a, e) < 0 || answer_read(&a, &data, e) < 0) {
		/* What we logged in for was not sent, so it may be tried again. */
		if (e->kind == ERR_UNAVAILABLE)
			e->sys = PVE_NOT_SENT;
		return err_wrap(e, "cannot log in to %s as %s", api->host, api->user);
	}
	if (a.body.p)
		explicit_bzero(a.body.p, a.body.cap);
	return keep_ticket(api, data, e);
}

/* old: the ticket that was refused, or NULL; another thread may have renewed it meanwhile. */
static int need_ticket(struct pve_api *api, const struct op *op, uint64_t old, struct err *e)
{
	auto_turn struct turn *held = NULL;
	bool good;

	if (api->token)
		return 0;
	for (int i = 0;; i++) {
		{
			auto_unlock pthread_mutex_t *mu = lock_take(&api->mu);
			good = api->ticket && (uint64_t)api->ticket_ns != old &&
			       now_ns() - api->ticket_ns < TICKET_SECONDS * INT64_C(1000000000);
		}
		if (good || i == 1)
			break;
		if (turn_take(&api->login, op, e) < 0)
			return -1;
		held = &api->login;
	}
	return good ? 0 : log_in(api, op, e);
}

static int add_auth(struct pve_api *api, bool get, struct buf *b, uint64_t *ret_used, struct err *e)
{
	auto_unlock pthread_mutex_t *held = lock_take(&api->mu);

	*ret_used = (uint64_t)api->ticket_ns;
	if (api->token)
		return buf_printf(b, e, "Authorization: PVEAPIToken=%s\r\n", api->token);
	if (!get && buf_printf(b, e, "CSRFPreventionToken: %s\r\n", api->csrf) < 0)
		return -1;
	return buf_printf(b, e, "Cookie: PVEAuthCookie=%s\r\n", api->ticket);
}

int pve_headers(struct pve_api *api, const struct op *op, bool get, uint64_t refused,
	struct buf *ret, uint64_t *ret_used, struct err *e)
{
	if (need_ticket(api, op, refused, e) < 0 || add_base_headers(api, ret, e) < 0)
		return -1;
	return add_auth(api, get, ret, ret_used, e);
}

int pve_api_headers(
	struct pve_api *api, const struct op *op, bool get, struct buf *ret, struct err *e)
{
	uint64_t used;

	return pve_headers(api, op, get, 0, ret, &used, e);
}

/* ---- calls ---- */

static int make_request(struct pve_api *api, const struct op *op, const char *method,
	const char *path, struct bytes form, uint64_t refused, struct buf *ret, uint64_t *ret_used,
	struct err *e)
{
	bool get = strcmp(method, "GET") == 0, query = get || strcmp(method, "DELETE") == 0;

	if (!buf_room(ret, HEAD_ROOM + form.len))
		return err_oom(e);
	if (buf_printf(ret, e, "%s /api2/json%s", method, path) < 0)
		return -1;
	if (query && form.len &&
		(buf_add(ret, "?", 1, e) < 0 || buf_add(ret, form.p, form.len, e) < 0))
		return -1;
	if (buf_add_str(ret, " HTTP/1.1\r\n", e) < 0 ||
		pve_headers(api, op, get, refused, ret, ret_used, e) < 0)
		return -1;
	if (query)
		return buf_add_str(ret, "\r\n", e);
	if (buf_printf(ret, e,
		    "Content-Type: application/x-www-form-urlencoded\r\n"
		    "Content-Length: %zu\r\n\r\n",
		    form.len) < 0)
		return -1;
	return form.len ? buf_add(ret, form.p, form.len, e) : 0;
}

/* Sends it; a second time with a new ticket if the first is refused. */
static int call_once(struct pve_api *api, const struct op *op, const char *method, const char *path,
	struct bytes form, json_t **ret, struct err *e)
{
	uint64_t refused = 0;

	for (int i = 0;; i++) {
		__attribute__((cleanup(pve_wipe))) struct buf head = {0};
		auto_http_answer struct http_answer a = {0};
		struct pve_request rq;
		uint64_t used;

		if (make_request(api, op, method, path, form, refused, &head, &used, e) < 0)
			return -1;
		rq = (struct pve_request){.head = buf_bytes(&head)};
		if (pve_exchange(api, op, &rq, &a, e) < 0)
			return -1;
		if (a.status != 401 || i > 0 || api->token)
			return answer_read(&a, ret, e);
		refused = used;
	}
}

static bool may_try_again(const struct err *e, bool twice, unsigned flags)
{
	if (e->kind == ERR_UNAVAILABLE)
		return twice || e->sys == PVE_NOT_SENT;
	return (flags & PVE_STUBBORN) && e->kind == ERR_BACKEND && e->sys >= 500;
}

bool pve_was_busy(const struct err *e)
{
	const char *m = e->msg;

	/* A cluster's lock that fails for want of a quorum is another matter. */
	return e->kind == ERR_BACKEND &&
	       ((strstr(m, "can't lock file '/var/lock/pve-manager/") &&
			strstr(m, "got timeout")) ||
		       (strstr(m, "cfs-lock '") && strstr(m, "got lock request timeout")) ||
		       (strstr(m, "command '/sbin/") && strstr(m, "failed: got timeout")));
}

bool pve_wait_busy(const struct op *budget, unsigned flags, const struct err *e)
{
	struct err late;

	return (flags & PVE_PATIENT) && pve_was_busy(e) && op_pause(budget, BUSY_PAUSE, &late) == 0;
}

static int call_some_times(struct pve_api *api, const struct op *op, const char *method,
	const char *path, struct bytes form, unsigned flags, json_t **ret, struct err *e)
{
	bool get = strcmp(method, "GET") == 0, twice = get || (flags & (PVE_TWICE | PVE_STUBBORN));
	struct err why;

	/* The agent's own calls are another matter: its errors are answers. */
	if (get && !strstr(path, "/agent/"))
		flags |= PVE_STUBBORN;
	for (int i = 0; call_once(api, op, method, path, form, ret, e) < 0; i++) {
		why = *e;
		if (i + 1 >= TRIES || !may_try_again(e, twice, flags) ||
			op_pause(op, 0.1 * (1 << i), e) < 0) {
			*e = why;
			return err_wrap(e, "%s %s", method, path);
		}
	}
	return 0;
}

int pve_call(struct pve_api *api, const struct op *op, const char *method, const char *path,
	const json_t *params, unsigned flags, json_t **ret, struct err *e)
{
	struct op budget = op_within(op, PVE_BUSY_SECONDS);
	auto_json json_t *data = NULL;
	auto_buf struct buf form = {0};

	if (form_encode(&form, params, e) < 0)
		return -1;
	while (call_some_times(api, op, method, path, buf_bytes(&form), flags, &data, e) < 0)
		if (!pve_wait_busy(&budget, flags, e))
			return -1;
	if (ret)
		*ret = take_ptr(&data);
	return 0;
}

int pve_path(char **ret, struct err *e, const char *fmt, ...)
{
	va_list ap;
	int rc;

	va_start(ap, fmt);
	rc = form_vpath(ret, fmt, ap, e);
	va_end(ap);
	return rc;
}

int pve_vdo(struct pve_api *api, const struct op *op, const char *method, json_t *params,
	unsigned flags, json_t **ret, struct err *e, const char *fmt, va_list ap)
{
	auto_json __attribute__((unused)) json_t *used = params;
	auto_free char *path = NULL;

	if (form_vpath(&path, fmt, ap, e) < 0)
		return -1;
	return pve_call(api, op, method, path, params, flags, ret, e);
}

int pve_do(struct pve_api *api, const struct op *op, const char *method, json_t *params,
	unsigned flags, json_t **ret, struct err *e, const char *fmt, ...)
{
	va_list ap;
	int rc;

	va_start(ap, fmt);
	rc = pve_vdo(api, op, method, params, flags, ret, e, fmt, ap);
	va_end(ap);
	return rc;
}
