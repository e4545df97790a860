#include "daemon/standby.h"

#include <string.h>

#include "daemon/removal.h"
#include "daemon/registry/describe.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/system/log.h"

static bool is_named(const struct sandbox *sb, void *arg)
{
	return strcmp(sb->id, arg) == 0;
}

static void drop(struct daemon *d, const struct op *op, char *id)
{
	struct err e;

	if (removal_run(d, NULL, is_named, id, &e) < 0)
		log_err(op, LOG_ERROR, &e, "cannot remove %s", id);
}

/* ---- taking ---- */

/* The registry has given the sandbox to the taker. Checks that it is well, and tells the journal.
 */
static int hand_over(struct daemon *d, struct borrower *b, const struct sandbox_taker *by,
	json_t **ret, struct err *e)
{
	auto_free char *labels = NULL;

	if (b->sb->driver->ops->refresh(b->driven, by->op, e) < 0 ||
		json_to_str(b->sb->labels, &labels, e) < 0 ||
		journal_sandbox_relabel(d->journal, b->sb->id, labels, e) < 0)
		return -1;
	return sandbox_made_to_json(b->sb, b->driven, ret, e);
}

int standby_take(struct daemon *d, const struct sandbox_spec *spec, struct sandbox_taker *by,
	bool detach, json_t **ret, struct err *e)
{
	auto_json json_t *j = NULL;
	auto_free char *key = NULL;
	struct borrower b;
	struct err late;
	int taken;

	if (spec_to_json(spec, &j, e) < 0 || json_to_str(j, &key, e) < 0)
		return -1;
	by->key = key;
	while ((taken = registry_take_standby(d->registry, by, &b, e)) > 0) {
		char id[sizeof(b.sb->id)];
		int rc = hand_over(d, &b, by, ret, e);

		memcpy(id, b.sb->id, sizeof(id));
		if (rc < 0)
			registry_explain(d->registry, &b, e);
		registry_return(d->registry, &b);
		if (rc == 0) {
			log_msg(by->op, LOG_INFO, "sandbox %s was in standby for process %d", id,
				by->owner_pid);
			return detach && registry_detach(d->registry, id, e) < 0 ? -1 : 1;
		}
		log_err(by->op, LOG_WARN, e, "sandbox %s was in standby, but is not well", id);
		drop(d, by->op, id);
		/* Whoever removed the sandbox has cancelled us, too: e says which it was. */
		if (op_check(by->op, &late) < 0)
			return -1;
	}
	return taken;
}

/* ---- giving way ---- */

/* Fits the first sandbox in standby that it is asked about, and no other. */
static bool first_in_standby(const struct sandbox *sb, void *arg)
{
	char *id = arg;

	if (!id[0] && sb->standby)
		memcpy(id, sb->id, sizeof(sb->id));
	return strcmp(sb->id, id) == 0;
}

bool standby_give_way(void *arg)
{
	struct daemon *d = arg;
	char id[sizeof(((struct sandbox *)NULL)->id)] = "";
	struct err e;

	if (removal_run(d, NULL, first_in_standby, id, &e) < 0)
		log_err(NULL, LOG_ERROR, &e, "cannot remove %s", id);
	if (id[0])
		log_msg(NULL, LOG_INFO, "sandbox %s leaves standby: its memory is needed", id);
	return id[0];
}
