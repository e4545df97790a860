#include "guestlink/agent/windows-script.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "util/auto.h"
#include "util/str.h"

enum { OUTPUT_OWN = 1024 * 1024 };

int win_check_user(const char *user, struct err *e)
{
	char safe[100];

	if (!user || strcasecmp(user, "SYSTEM") == 0 ||
		strcasecmp(user, "NT AUTHORITY\\SYSTEM") == 0)
		return 0;
	str_escape(user, strlen(user), safe, sizeof(safe));
	return err_set(e, ERR_UNSUPPORTED,
		"user %s: in Windows guests everything is done as SYSTEM, by the guest agent",
		safe);
}

int win_make_id(char id[WINCMD_ID_LEN + 1], struct err *e)
{
	return str_random_hex(WINCMD_ID_LEN / 2, id, e);
}

int win_put_pieces(struct agent *w, const struct op *op, const char *id, struct bytes content,
	unsigned *ret_pieces, struct err *e)
{
	size_t most = qga_write_max(w->q);
	unsigned n = 0;

	while (content.len) {
		struct bytes piece = {content.p, content.len < most ? content.len : most};
		char number[12], path[WINCMD_PATH_MAX];

		snprintf(number, sizeof(number), "%u", n++);
		wincmd_temp_path(id, number, path);
		if (qga_file_write(w->q, op, path, piece, e) < 0)
			return -1;
		content.p += piece.len;
		content.len -= piece.len;
	}
	*ret_pieces = n;
	return 0;
}

static bool is_ascii(const struct buf *b)
{
	const uint8_t *p = buf_data(b);

	for (size_t i = 0; i < b->len; i++)
		if (p[i] >= 0x80)
			return false;
	return true;
}

int win_put_script(struct agent *w, const struct op *op, const char *id, const struct buf *body,
	bool utf8, char path[WINCMD_PATH_MAX], struct err *e)
{
	auto_buf struct buf text = {0};

	if (wincmd_begin(&text, *w->last_script ? w->last_script : NULL, utf8 || !is_ascii(body),
		    e) < 0 ||
		buf_add(&text, buf_data(body), body->len, e) < 0)
		return -1;
	if (text.len > qga_write_max(w->q))
		return guest_too_large(e,
			"the command and its variables are too long for a Windows guest: %zu bytes",
			text.len);
	wincmd_temp_path(id, "cmd", path);
	if (qga_file_write(w->q, op, path, buf_bytes(&text), e) < 0) {
		path[0] = 0; /* there is no script to run */
		return err_wrap(e, "a script in the guest");
	}
	snprintf(w->last_script, sizeof(w->last_script), "%s", id);
	return 0;
}

int win_run_own(struct agent *w, const struct op *op, const char *id, const struct buf *body,
	const char *path, struct qga_exit *ret, struct err *e)
{
	char script[WINCMD_PATH_MAX];
	const char *const argv[] = {"cmd.exe", "/d", "/c", script, NULL};
	struct qga_exec req = {.argv = argv, .output_max = OUTPUT_OWN};
	auto_qga_exit struct qga_exit x = {0};
	char words[300];

	if (win_put_script(w, op, id, body, ret != NULL, script, e) < 0 ||
		qga_exec(w->q, op, &req, &x, e) < 0)
		return -1;
	if (x.code > WINCMD_ERRNO && x.code < WINCMD_ERRNO + 100)
		return guest_fail(e, (uint32_t)(x.code - WINCMD_ERRNO), path, "");
	qga_exit_message(&x, words, sizeof(words));
	if (x.code)
		return err_set(e, ERR_BACKEND, "cmd in the guest: %s", words);
	if (x.out_cut)
		return err_set(e, ERR_LIMIT, "the guest agent cannot tell it all");
	if (ret) {
		*ret = x;
		x = (struct qga_exit){0};
	}
	return 0;
}
