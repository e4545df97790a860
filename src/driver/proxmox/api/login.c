#include "driver/proxmox/api/login.h"

#include <stdlib.h>
#include <string.h>

#include "driver/proxmox/api/answer.h"
#include "driver/proxmox/api/form.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"
#include "util/thread/lock.h"

#define TICKET_SECONDS 3600 /* half of a ticket's life */
enum { HEAD_ROOM = 8 * 1024 };

void pve_wipe_str(char *s)
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

static int add_base_headers(struct pve_api *api, struct buf *b, struct err *e)
{
	return buf_printf(b, e, "Host: %s\r\nUser-Agent: moat/" MOAT_VERSION "\r\n%s", api->host,
		api->headers);
}

/* Keeps a new ticket and its CSRF token. They go into headers, so a server that puts line breaks
 * there is refused. */
static int keep_ticket(struct pve_api *api, json_t *data, struct err *e)
{
	const char *ticket = json_string_value(json_object_get(data, "ticket"));
	const char *csrf = json_string_value(json_object_get(data, "CSRFPreventionToken"));
	auto_free char *new_ticket = NULL, *new_csrf = NULL;

	/* With NeedTFA there is a ticket, too, but it is good only for the second factor. */
	if (json_object_get(data, "NeedTFA"))
		return err_set(e, ERR_PERMISSION, "a second factor is asked for: use an API token");
	if (!ticket || !csrf || strpbrk(ticket, "\r\n;") || strpbrk(csrf, "\r\n"))
		return err_set(e, ERR_PERMISSION, "the server sent no ticket");
	if (str_dup(ticket, &new_ticket, e) < 0 || str_dup(csrf, &new_csrf, e) < 0)
		return -1;
	auto_unlock struct lock *held = lock_take(&api->mu);
	pve_wipe_str(api->ticket);
	pve_wipe_str(api->csrf);
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

	/* The buffers get all their room at once: growing would leave copies of the password
	 * behind. */
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
		/* The request that needed the login was not sent, so it may be tried again. */
		if (e->kind == ERR_UNAVAILABLE)
			e->sys = PVE_NOT_SENT;
		return err_wrap(e, "cannot log in to %s as %s", api->host, api->user);
	}
	if (a.body.p)
		explicit_bzero(a.body.p, a.body.cap);
	return keep_ticket(api, data, e);
}

/* Logs in unless there is a good ticket. old: the ticket that was refused, or 0; another thread
 * may have renewed it meanwhile. */
static int need_ticket(struct pve_api *api, const struct op *op, uint64_t old, struct err *e)
{
	auto_turn struct turn *held = NULL;
	bool good;

	if (api->token)
		return 0;
	for (int i = 0;; i++) {
		{
			auto_unlock struct lock *mu = lock_take(&api->mu);
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
	auto_unlock struct lock *held = lock_take(&api->mu);

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
