#include "driver/proxmox/api/conn.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "util/auto.h"
#include "util/system/paths.h"
#include "wire/base64.h"
#include "wire/sha256.h"

#define CONNECT_SECONDS 20.0
#define HURRY_SECONDS   3.0
enum { RECV_PIECE = 64 * 1024, POLL_MS_MAX = 1000 };

int pve_global_init(struct err *e)
{
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_set(e, ERR_INTERNAL, "libcurl cannot be initialised");
	return 0;
}

void pve_conn_close(struct pve_conn *c)
{
	if (!c)
		return;
	if (c->easy && c->multi)
		curl_multi_remove_handle(c->multi, c->easy);
	curl_easy_cleanup(c->easy);
	curl_multi_cleanup(c->multi);
	free(c);
}
DEFINE_AUTO(auto_pve_connp, struct pve_conn, pve_conn_close)
#define auto_pve_conn __attribute__((cleanup(auto_pve_connp)))

void conn_fingerprint(const char *pem, char ret_hex[65])
{
	static const char begin[] = "-----BEGIN CERTIFICATE-----", end[] = "-----END";
	auto_free char *text = NULL;
	auto_buf struct buf der = {0};
	struct sha256 sum;
	const char *stop;
	size_t n = 0;

	ret_hex[0] = '\0';
	pem = strstr(pem, begin);
	stop = pem ? strstr(pem, end) : NULL;
	if (!stop || !(text = malloc((size_t)(stop - pem) + 1)))
		return;
	for (pem += strlen(begin); pem < stop; pem++)
		if (!isspace((unsigned char)*pem))
			text[n++] = *pem;
	if (!n || !base64_decode(text, n, &der))
		return;
	sha256_start(&sum);
	sha256_add(&sum, buf_data(&der), der.len);
	sha256_end(&sum, ret_hex);
}

int conn_read_fingerprint(const char *text, char ret_hex[65], struct err *e)
{
	char hex[65];
	size_t n = 0;

	for (const char *p = text; *p; p++) {
		if (*p == ':')
			continue;
		if (!isxdigit((unsigned char)*p) || n == 64)
			break;
		hex[n++] = (char)tolower((unsigned char)*p);
	}
	hex[n] = '\0';
	if (n != 64 || strspn(text, "0123456789abcdefABCDEF:") != strlen(text))
		return err_set(e, ERR_INVALID,
			"fingerprint: not the SHA-256 of a certificate (64 hex digits)");
	memcpy(ret_hex, hex, sizeof(hex));
	return 0;
}

/* Compares the server's own certificate, the first of the chain, with the pinned one. */
static int check_pin(struct pve_conn *c, const struct conn_target *t, struct err *e)
{
	struct curl_certinfo *info = NULL;
	char hex[65] = "";

	if (!t->fingerprint)
		return 0;
	if (curl_easy_getinfo(c->easy, CURLINFO_CERTINFO, &info) == CURLE_OK && info &&
		info->num_of_certs > 0)
		for (struct curl_slist *l = info->certinfo[0]; l; l = l->next)
			if (strncmp(l->data, "Cert:", 5) == 0)
				conn_fingerprint(l->data + 5, hex);
	if (strcmp(hex, t->fingerprint) == 0)
		return 0;
	return err_set(e, ERR_PERMISSION,
		"the certificate of %s is not the pinned one: its fingerprint is %s", t->url,
		hex[0] ? hex : "unknown");
}

static int setup(struct pve_conn *c, const struct conn_target *t, char *text, struct err *e)
{
	bool verify = t->verify && !t->fingerprint;
	const char *ca_file = paths_ca_file();
	CURL *h = c->easy = curl_easy_init();

	c->multi = curl_multi_init();
	if (!c->easy || !c->multi)
		return err_oom(e);
	if (curl_easy_setopt(h, CURLOPT_URL, t->url) || curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L) ||
		curl_easy_setopt(h, CURLOPT_CONNECT_ONLY, 1L) ||
		curl_easy_setopt(h, CURLOPT_SSL_ENABLE_ALPN, 0L) ||
		curl_easy_setopt(h, CURLOPT_SSL_VERIFYPEER, verify ? 1L : 0L) ||
		curl_easy_setopt(h, CURLOPT_SSL_VERIFYHOST, verify ? 2L : 0L) ||
		(ca_file && curl_easy_setopt(h, CURLOPT_CAINFO, ca_file)) ||
		curl_easy_setopt(h, CURLOPT_CERTINFO, t->fingerprint ? 1L : 0L) ||
		curl_easy_setopt(h, CURLOPT_TCP_KEEPALIVE, 1L) ||
		curl_easy_setopt(h, CURLOPT_TCP_NODELAY, 1L) ||
		curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "https") ||
		curl_easy_setopt(h, CURLOPT_ERRORBUFFER, text))
		return err_set(e, ERR_INTERNAL, "libcurl lacks something");
	if (curl_multi_add_handle(c->multi, h) != CURLM_OK)
		return err_oom(e);
	return 0;
}

static int fail_connect(const struct conn_target *t, CURLcode rc, const char *text, struct err *e)
{
	bool tls = rc == CURLE_PEER_FAILED_VERIFICATION || rc == CURLE_SSL_CACERT_BADFILE;

	err_set(e, tls ? ERR_PERMISSION : ERR_UNAVAILABLE, "cannot connect to %s: %s%s", t->url,
		text[0] ? text : curl_easy_strerror(rc),
		tls ? " (pin the certificate by fingerprint, or set verify_tls to false)" : "");
	e->sys = PVE_NOT_SENT;
	return -1;
}

/*
 * libcurl knows which descriptors and timers a connect needs (name look-up, several addresses,
 * TLS), so this one wait is its own, with our cancel fd among the descriptors.
 */
static int drive(struct pve_conn *c, const struct conn_target *t, const struct op *op,
	const char *text, struct err *e)
{
	struct op part = op_within(op, CONNECT_SECONDS), hurry = op_within(op, HURRY_SECONDS);
	struct curl_waitfd cancel = {.fd = op->cancel_fd, .events = CURL_WAIT_POLLIN};

	for (;;) {
		int running = 0, left = 0;
		CURLMsg *msg;

		if (curl_multi_perform(c->multi, &running) != CURLM_OK)
			return err_set(e, ERR_INTERNAL, "libcurl refuses to connect");
		msg = curl_multi_info_read(c->multi, &left);
		if (msg && msg->msg == CURLMSG_DONE)
			return msg->data.result == CURLE_OK
				       ? 0
				       : fail_connect(t, msg->data.result, text, e);
		if (t->hurried && atomic_load(t->hurried))
			part = hurry;
		if (op_check(&part, e) < 0) {
			if (op_check(op, e) < 0)
				return -1;
			return fail_connect(t, CURLE_OPERATION_TIMEDOUT, "", e);
		}
		/* The deadline is looked at once a second: it only guards against silence. */
		curl_multi_poll(c->multi, &cancel, op->cancel_fd >= 0 ? 1 : 0, POLL_MS_MAX, NULL);
	}
}

int conn_open(
	const struct conn_target *t, const struct op *op, struct pve_conn **ret, struct err *e)
{
	auto_pve_conn struct pve_conn *c = calloc(1, sizeof(*c));
	char text[CURL_ERROR_SIZE] = "";
	curl_socket_t fd = CURL_SOCKET_BAD;

	if (!c)
		return err_oom(e);
	if (setup(c, t, text, e) < 0 || drive(c, t, op, text, e) < 0)
		return -1;
	/* text, the buffer for libcurl's messages, is about to go out of scope. */
	curl_easy_setopt(c->easy, CURLOPT_ERRORBUFFER, NULL);
	if (curl_easy_getinfo(c->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK ||
		fd == CURL_SOCKET_BAD)
		return fail_connect(t, CURLE_COULDNT_CONNECT, "", e);
	c->fd = (int)fd;
	if (check_pin(c, t, e) < 0)
		return -1;
	*ret = take_ptr(&c);
	return 0;
}

int pve_conn_fd(const struct pve_conn *c)
{
	return c->fd;
}

int pve_conn_send(struct pve_conn *c, const struct op *op, const void *p, size_t n, struct err *e)
{
	const char *at = p;

	while (n) {
		size_t sent = 0;
		CURLcode rc = curl_easy_send(c->easy, at, n, &sent);

		if (rc == CURLE_AGAIN) {
			if (op_wait_fd(op, c->fd, POLLOUT, e) < 0)
				return -1;
			continue;
		}
		if (rc != CURLE_OK)
			return err_set(e, ERR_UNAVAILABLE, "the connection was lost: %s",
				curl_easy_strerror(rc));
		at += sent;
		n -= sent;
		if (n && op_check(op, e) < 0)
			return -1;
	}
	return 0;
}

ssize_t pve_conn_recv_now(struct pve_conn *c, struct buf *b, size_t max, struct err *e)
{
	size_t want = max < RECV_PIECE ? max : RECV_PIECE, got = 0;
	uint8_t *room = buf_room(b, want);
	CURLcode rc;

	if (!room)
		return err_oom(e);
	rc = curl_easy_recv(c->easy, room, want, &got);
	if (rc == CURLE_AGAIN)
		return 0;
	if (rc != CURLE_OK || got == 0)
		return err_set(e, ERR_UNAVAILABLE, "the connection was %s",
			rc == CURLE_OK ? "closed" : "lost");
	buf_grew(b, got);
	return (ssize_t)got;
}

ssize_t pve_conn_recv(
	struct pve_conn *c, const struct op *op, struct buf *b, size_t max, struct err *e)
{
	for (;;) {
		ssize_t got = pve_conn_recv_now(c, b, max, e);

		if (got != 0)
			return got;
		if (op_wait_fd(op, c->fd, POLLIN, e) < 0)
			return -1;
	}
}
