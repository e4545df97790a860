/* The pure parts of the Proxmox API client: HTTP answers, forms, errors, fingerprints, tasks. */
#include "driver/proxmox/api/answer.h"
#include "driver/proxmox/api/api.h"
#include "driver/proxmox/api/conn.h"
#include "driver/proxmox/api/form.h"
#include "driver/proxmox/api/task.h"

#include <ctype.h>

#include "tap.h"
#include "util/auto.h"
#include "util/json.h"

/* Feeds an answer byte by byte, or all at once. Returns what http_body_end said in the end, or -1.
 */
static int feed(const char *text, size_t len, size_t step, struct http_answer *a, struct err *e)
{
	auto_buf struct buf in = {0};

	*a = (struct http_answer){0};
	for (size_t at = 0; at < len; at += step) {
		size_t n = len - at < step ? len - at : step;

		if (buf_add(&in, text + at, n, e) < 0 || http_take(&in, a, e) < 0)
			return -1;
	}
	return a->has_head ? http_body_end(a, e) : err_set(e, ERR_UNAVAILABLE, "no head");
}

static void answers(void)
{
	static const char
		plain[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		chunked[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
			    "3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n",
		both[] = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n"
			 "Connection: Keep-Alive\r\n\r\n",
		closed[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end",
		failed[] = "HTTP/1.1 500 VM is locked (backup)\r\nContent-Length: 2\r\n\r\n{}";
	struct http_answer a;
	struct err e;

	for (size_t step = 1; step < 200; step += 66) {
		OK(feed(plain, strlen(plain), step, &a, &e) == 0 && a.status == 200);
		OK(a.body.len == 5 && memcmp(buf_data(&a.body), "hello", 5) == 0);
		http_answer_free(&a);
		OK(feed(chunked, strlen(chunked), step, &a, &e) == 0 && a.body.len == 5 &&
			memcmp(buf_data(&a.body), "hello", 5) == 0);
		http_answer_free(&a);
		OK(feed(closed, strlen(closed), step, &a, &e) == 0 && a.body.len == 13);
		http_answer_free(&a);
		OK(feed(plain, strlen(plain) - 1, step, &a, &e) < 0 && e.kind == ERR_UNAVAILABLE);
		http_answer_free(&a);
		OK(feed(chunked, strlen(chunked) - 6, step, &a, &e) < 0);
		http_answer_free(&a);
	}
	OK(http_head((struct bytes){(const uint8_t *)both, strlen(both)}, &a, &e) == 1 && a.keep);
	OK(http_head((struct bytes){(const uint8_t *)closed, strlen(closed)}, &a, &e) == 1 &&
		!a.keep);
	OK(http_head((struct bytes){(const uint8_t *)failed, strlen(failed)}, &a, &e) == 1 &&
		!a.keep && a.status == 500);
	STR_IS(a.reason, "VM is locked (backup)");
	OK(feed("SSH-2.0-x\r\n\r\n", 13, 99, &a, &e) < 0);
	OK(feed("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", 48, 99, &a, &e) < 0);
}

static int read_text(int status, const char *reason, const char *body, json_t **ret, struct err *e)
{
	struct http_answer a = {.status = status};
	int rc;

	snprintf(a.reason, sizeof(a.reason), "%s", reason);
	if (buf_add_str(&a.body, body, e) < 0)
		return -1;
	rc = answer_read(&a, ret, e);
	http_answer_free(&a);
	return rc;
}

static void errors(void)
{
	json_t *data = NULL;
	struct err e;

	OK(read_text(200, "OK", "{\"data\":{\"a\":\"x\\u0000y\"}}", &data, &e) == 0 &&
		json_string_length(json_object_get(data, "a")) == 3);
	json_decref(data);
	OK(read_text(200, "OK", "{}", &data, &e) == 0 && json_is_null(data));
	OK(read_text(200, "OK", "<html>", &data, &e) < 0 && e.kind == ERR_BACKEND);
	OK(read_text(400, "Parameter verification failed.",
		   "{\"data\":null,\"message\":\"Parameter verification failed.\\n\","
		   "\"errors\":{\"vmid\":\"too \\u001b[1m small\"}}",
		   &data, &e) < 0 &&
		e.kind == ERR_INVALID && e.sys == 400);
	STR_IS(e.msg, "Parameter verification failed.; vmid: too \\x1b[1m small (HTTP 400)");
	OK(read_text(403, "Permission check failed (/vms/201, VM.Audit)", "", &data, &e) < 0 &&
		e.kind == ERR_PERMISSION);
	OK(read_text(500, "x",
		   "{\"data\":null,\"message\":\"Configuration file 'nodes/n/qemu-server/9.conf' "
		   "does not exist\\n\"}",
		   &data, &e) < 0 &&
		e.kind == ERR_NOT_FOUND);
	OK(read_text(500, "VM is locked (backup)", "", &data, &e) < 0 && e.kind == ERR_BACKEND);
	OK(read_text(596, "Broken pipe", "", &data, &e) < 0 && e.kind == ERR_UNAVAILABLE &&
		e.sys == 596);
	STR_IS(e.msg, "Broken pipe (HTTP 596)");
}

static void forms(void)
{
	auto_json json_t *params = json_pack("{s:s, s:i, s:b, s:b, s:[s,s], s:n}", "a",
		"x y&\xc3\xa9", "b", 7, "c", 1, "d", 0, "e", "1", "2", "f");
	auto_json json_t *bad = json_pack("{s:{}}", "a");
	auto_buf struct buf b = {0};
	auto_free char *text = NULL, *path = NULL;
	struct err e;

	OK(form_encode(&b, params, &e) == 0);
	text = buf_take_str(&b);
	STR_IS(text, "a=x%20y%26%C3%A9&b=7&c=1&d=0&e=1&e=2");
	OK(form_encode(&b, NULL, &e) == 0 && b.len == 0);
	OK(form_encode(&b, bad, &e) < 0);
	OK(pve_path(&path, &e, "/nodes/%s/qemu/%u/x", "a/../b", 100u) == 0);
	STR_IS(path, "/nodes/a%2F..%2Fb/qemu/100/x");
}

static void fingerprints(void)
{
	static const char pem[] =
		"-----BEGIN CERTIFICATE-----\naGVs\nbG8=\n-----END CERTIFICATE-----\n";
	static const char want[] =
		"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
	char hex[65], colons[96] = "";
	struct err e;

	conn_fingerprint(pem, hex);
	STR_IS(hex, want);
	conn_fingerprint("nothing", hex);
	STR_IS(hex, "");
	for (int i = 0; i < 64; i++)
		snprintf(colons + strlen(colons), 3, "%s%c", i && i % 2 == 0 ? ":" : "",
			toupper((unsigned char)want[i]));
	OK(conn_read_fingerprint(colons, hex, &e) == 0);
	STR_IS(hex, want);
	OK(conn_read_fingerprint("AA:BB", hex, &e) < 0 && e.kind == ERR_INVALID);
	colons[95] = '\0';
	colons[0] = 'x';
	OK(conn_read_fingerprint(colons, hex, &e) < 0);
}

static void tasks(void)
{
	char node[UPID_NODE_MAX + 1];
	struct err e;

	OK(upid_node("UPID:pve-1:0000:00:00:qmclone:100:root@pam:", node, &e) == 0);
	STR_IS(node, "pve-1");
	OK(upid_node("UPID:../x:0:", node, &e) < 0);
	OK(upid_node("UPID:", node, &e) < 0 && upid_node(NULL, node, &e) < 0 &&
		upid_node("done", node, &e) < 0);
}

static void extra_headers(struct pve_access a)
{
	static const char *const wrong[] = {"X-A: 1\r\nX-B: 2", "X-A", ": 1", "X A: 1",
		"Cookie : a=b", "cookie: a=b", "CSRFPreventionToken: 1", "HOST: other",
		"Content-Length: 0"};
	const char *one[] = {"Authorization: Bearer x", NULL};
	struct pve_api *api;
	struct err e;

	a.headers = one;
	OK(pve_api_new(&a, &api, &e) == 0);
	pve_api_free(api);
	a.token = "id=secret";
	OK(pve_api_new(&a, &api, &e) < 0);
	STR_IS(e.msg, "extra_headers[0]: moat sets Authorization itself");
	a.token = NULL;
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		one[0] = wrong[i];
		OK(pve_api_new(&a, &api, &e) < 0 && e.kind == ERR_INVALID);
	}
}

static void access_checks(void)
{
	struct pve_access a = {.host = "h", .port = 1, .user = "root", .realm = "pam"};
	struct pve_api *api;
	struct err e;

	OK(pve_api_new(&a, &api, &e) < 0 && e.kind == ERR_INVALID); /* no secret */
	a.password = "p";
	OK(pve_api_new(&a, &api, &e) == 0);
	pve_api_free(api);
	extra_headers(a);
	a.host = "h/../x";
	OK(pve_api_new(&a, &api, &e) < 0);
	a.host = "::1";
	a.fingerprint = "zz";
	OK(pve_api_new(&a, &api, &e) < 0);
}

int main(void)
{
	answers();
	errors();
	forms();
	fingerprints();
	tasks();
	access_checks();
	return tap_done();
}
