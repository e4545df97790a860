#include "daemon/ops/args.h"

#include <string.h>

#include "util/auto.h"
#include "util/str.h"

enum { LABELS_MAX = 64, LABEL_TEXT_MAX = 1024 };

int find_vm(const struct sandbox *sb, const char *name, unsigned *ret, struct err *e)
{
	const struct vm_spec *vm = name ? spec_find_vm(sb->spec, name) : spec_default_vm(sb->spec);
	char safe[80];

	if (!vm) {
		str_escape(name, strlen(name), safe, sizeof(safe));
		return err_set(e, ERR_NOT_FOUND,
			"sandbox %s has no VM \"%s\"; see what there is: moat ls %s", sb->id, safe,
			sb->id);
	}
	*ret = (unsigned)(vm - sb->spec->vms);
	return 0;
}

int check_labels(json_t *labels, struct err *e)
{
	const char *key;
	json_t *value;

	if (!json_is_object(labels))
		return err_set(e, ERR_INVALID, "labels: not an object");
	if (json_object_size(labels) > LABELS_MAX)
		return err_set(e, ERR_INVALID, "labels: more than %d", LABELS_MAX);
	json_object_foreach(labels, key, value) {
		if (!json_is_string(value))
			return err_set(e, ERR_INVALID, "labels.%.64s: not a string", key);
		if (strlen(key) > LABEL_TEXT_MAX || json_string_length(value) > LABEL_TEXT_MAX)
			return err_set(e, ERR_INVALID, "labels.%.64s: longer than %d bytes", key,
				LABEL_TEXT_MAX);
	}
	return 0;
}

int read_spec(struct request *rq, json_t *j, struct sandbox_spec **ret, struct driver **ret_driver,
	struct err *e)
{
	auto_spec struct sandbox_spec *spec = NULL;

	if (spec_parse(j, &spec, e) < 0 ||
		daemon_driver(rq->daemon, spec_driver_name(spec->driver), ret_driver, e) < 0 ||
		(*ret_driver)->ops->validate(*ret_driver, spec, e) < 0)
		return -1;
	*ret = take_ptr(&spec);
	return 0;
}

int borrow_vm(struct request *rq, const char *sandbox, const char *name, struct borrower *b,
	unsigned *ret_vm, struct err *e)
{
	if (registry_borrow(rq->daemon->registry, sandbox, &rq->op, b, e) < 0)
		return -1;
	if (find_vm(b->sb, name, ret_vm, e) == 0)
		return 0;
	registry_return(rq->daemon->registry, b);
	return -1;
}
