/* Operations on templates: template.ls, template.rm; and which of them are stale. */
#include <string.h>
#include <time.h>

#include "daemon/request.h"
#include "daemon/stale.h"
#include "util/json.h"

#define STALE_SECONDS                                                                              \
	(30 * 24 * 3600) /* unused for so long: its QEMU or its moat is another by now */

static bool is_stale(void *arg, const json_t *about)
{
	struct daemon *d = arg;
	auto_image struct image *image = NULL;
	const char *digest = json_string_value(json_object_get(about, "image"));
	json_int_t used = json_integer_value(json_object_get(about, "used"));
	struct err e;

	if (!digest)
		return true;
	if (store_find(d->store, digest, &image, &e) < 0 && e.kind == ERR_NOT_FOUND)
		return true;
	return used + STALE_SECONDS < time(NULL);
}

int templates_drop_stale(
	struct daemon *d, void (*said)(void *arg, const char *text), void *arg, struct err *e)
{
	if (!d->templates)
		return 0;
	return templates_sweep(d->templates, is_stale, d, said, arg, e);
}

int handle_template_ls(struct request *rq, json_t **ret, struct err *e)
{
	auto_json json_t *all = NULL;

	if (json_get(rq->args, "args", e, "{}") < 0)
		return -1;
	if (!rq->daemon->templates)
		all = json_array();
	else if (templates_list(rq->daemon->templates, &all, e) < 0)
		return -1;
	return json_make(ret, e, "{s:O}", "templates", all);
}

int handle_template_rm(struct request *rq, json_t **ret, struct err *e)
{
	const char *key;
	uint64_t freed;

	if (json_get(rq->args, "args", e, "{s:s}", "template", &key) < 0)
		return -1;
	if (!rq->daemon->templates)
		return err_set(e, ERR_NOT_FOUND, "no template %.64s", key);
	if (templates_remove(rq->daemon->templates, key, &freed, e) < 0)
		return -1;
	return json_make(ret, e, "{s:I}", "freed", (json_int_t)freed);
}
