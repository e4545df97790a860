/* Operations on templates: template.ls, template.rm. */
#include "daemon/request.h"
#include "util/json.h"

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
