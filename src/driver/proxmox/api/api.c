#include "driver/proxmox/api/api.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "driver/proxmox/api/answer.h"
#include "driver/proxmox/api/form.h"
#include "driver/proxmox/api/login.h"
#include "driver/proxmox/api/outage.h"
#include "driver/proxmox/api/wording.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/thread/lock.h"
#include "util/str.h"

#define BUSY_PAUSE 0.5
/* How long a try of a PVE_BRIEF call may take; a busy server may need seconds to answer. */
#define BRIEF_TRY_SECONDS 10.0
enum { HEAD_ROOM = 8 * 1024, TRIES = 5 };

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
	pve_wipe_str(api->password);
	pve_wipe_str(api->token);
	pve_wipe_str(api->headers);
	pve_wipe_str(api->ticket);
	pve_wipe_str(api->csrf);
	turn_done(&api->login);
	lock_done(&api->mu);
	free(api);
}
DEFINE_AUTO(auto_apip, struct pve_api, pve_api_free)

/* Headers that every request has already. A second one could replace it, or make a server see
 * two requests in one. */
static bool is_own_header(const struct pve_access *a, const char *line)
{
	static const char *const own[] = {"Host", "Cookie", "CSRFPreventionToken", "Content-Length",
		"Content-Type", "Transfer-Encoding", "Connection"};
	size_t n = strcspn(line, ":");

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (strlen(own[i]) == n && strncasecmp(line, own[i], n) == 0)
			return true;
	/* With a password, Authorization is free for a proxy's login; a token is in that very
	 * header. */
	return !str_empty(a->token) && n == strlen("Authorization") &&
	       strncasecmp(line, "Authorization", n) == 0;
}

/* A line break in a header would begin another header. */
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
	lock_init(&api->mu, "pve_api.mu", LOCK_LEAF);
	if (a->host[0] == '\0' || strpbrk(a->host, "/@?# \r\n"))
		return err_set(e, ERR_INVALID, "host: not a host name or address");
	api->verify = a->verify_tls;
	if (!str_empty(a->fingerprint)) {
		if (conn_read_fingerprint(a->fingerprint, api->fingerprint, e) < 0)
			return -1;
		api->pinned = true;
	}
	turn_init(&api->login);
	api->outage_s = a->outage_s;
	if (str_printf(&api->host, e, v6 ? "[%s]:%u" : "%s:%u", a->host, a->port) < 0 ||
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
		.fingerprint = api->pinned ? api->fingerprint : NULL,
		.hurried = &api->hurried};

	return conn_open(&t, op, ret, e);
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

/* Sends a request; if the server refuses the ticket, a second time with a new one. */
static int exchange_once(struct pve_api *api, const struct op *op, const char *method,
	const char *path, struct bytes form, json_t **ret, struct err *e)
{
	uint64_t refused = 0;

	if (pve_outage_check(api, e) < 0)
		return -1;
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

/* exchange_once for PVE_BRIEF: a server that takes too long is away. */
static int exchange_briefly(struct pve_api *api, const struct op *op, const char *method,
	const char *path, struct bytes form, json_t **ret, struct err *e)
{
	struct op part = op_within(op, BRIEF_TRY_SECONDS);
	struct err ended;

	if (exchange_once(api, &part, method, path, form, ret, e) == 0)
		return 0;
	if (e->kind == ERR_TIMEOUT && op_check(op, &ended) == 0) {
		err_set(e, ERR_UNAVAILABLE, "%s has not answered within %g s", api->host,
			BRIEF_TRY_SECONDS);
		e->sys = PVE_NO_ANSWER;
	}
	return -1;
}

static bool may_try_again(const struct err *e, bool twice, unsigned flags)
{
	if (e->kind == ERR_UNAVAILABLE)
		return twice;
	return (flags & PVE_STUBBORN) && e->kind == ERR_BACKEND && e->sys >= 500;
}

bool pve_wait_busy(const struct op *budget, unsigned flags, const struct err *e)
{
	struct err late;

	if (!(flags & PVE_PATIENT) || !pve_says_busy(e))
		return false;
	op_progress(budget, 0, 0, "the server is busy, trying again: %.200s", e->msg);
	return op_pause(budget, BUSY_PAUSE, &late) == 0;
}

static int call_some_times(struct pve_api *api, const struct op *op, const char *method,
	const char *path, struct bytes form, unsigned flags, json_t **ret, struct err *e)
{
	bool get = strcmp(method, "GET") == 0, twice = get || (flags & (PVE_TWICE | PVE_STUBBORN));
	struct outage_wait outage = {.began_ns = now_ns()};
	struct err why;
	int tries = 0;

	/* A GET about the guest agent is not repeated after an error: the error is the agent's
	 * answer. */
	if (get && !strstr(path, "/agent/"))
		flags |= PVE_STUBBORN;
	while ((flags & PVE_BRIEF ? exchange_briefly : exchange_once)(
		       api, op, method, path, form, ret, e) < 0) {
		bool again;

		why = *e;
		if (pve_outage_is(e, twice)) {
			again = pve_outage_wait(api, op, &outage, flags & PVE_BRIEF, e);
		} else {
			if (e->sys > 0)
				pve_outage_over(api, op, &outage);
			again = ++tries < TRIES && may_try_again(e, twice, flags) &&
				op_pause(op, 0.05 * (1 << tries), e) == 0;
		}
		if (!again) {
			*e = why;
			return err_wrap(e, "%s %s", method, path);
		}
	}
	pve_outage_over(api, op, &outage);
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

int pve_do(struct pve_api *api, const struct op *op, const char *method, json_t *params,
	unsigned flags, json_t **ret, struct err *e, const char *fmt, ...)
{
	auto_json __attribute__((unused)) json_t *used = params;
	auto_free char *path = NULL;
	va_list ap;
	int rc;

	va_start(ap, fmt);
	rc = form_vpath(&path, fmt, ap, e);
	va_end(ap);
	return rc < 0 ? -1 : pve_call(api, op, method, path, params, flags, ret, e);
}
