#include "spec/spec.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "spec/check-files.h"
#include "spec/check-nets.h"
#include "spec/check-services.h"
#include "spec/check-vms.h"
#include "spec/fields.h"
#include "spec/finish.h"
#include "spec/read.h"
#include "spec/text.h"
#include "spec/write.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

int spec_parse(const json_t *j, struct sandbox_spec **ret, struct err *e)
{
	auto_spec struct sandbox_spec *s = calloc(1, sizeof(*s));

	if (!s)
		return err_oom(e);
	if (shape_read(&spec_shape, j, s, e) < 0 || spec_finish(s, j, e) < 0 ||
		spec_check_vms(s, e) < 0 || spec_check_services(s, e) < 0 ||
		spec_check_files(s, e) < 0 || spec_check_networks(s, e) < 0 ||
		spec_check_nics(s, e) < 0)
		return -1;
	*ret = take_ptr(&s);
	return 0;
}

void spec_free(struct sandbox_spec *s)
{
	if (s)
		shape_free(&spec_shape, s);
	free(s);
}

int spec_to_json(const struct sandbox_spec *s, json_t **ret, struct err *e)
{
	auto_json json_t *j = NULL;
	json_t *vms;

	if (shape_write(&spec_shape, s, &j, e) < 0)
		return -1;
	vms = json_object_get(j, "vms");
	for (size_t i = 0; i < s->n_vms; i++)
		if (s->vms[i].no_healthcheck && json_object_set_new(json_array_get(vms, i),
							"healthcheck", json_string("none")) < 0)
			return err_oom(e);
	*ret = take_ptr(&j);
	return 0;
}

const char *spec_driver_name(enum spec_driver d)
{
	return spec_driver_choices.list[d];
}

const char *spec_os_name(enum spec_os os)
{
	return spec_os_choices.list[os];
}

const char *spec_disk_name(enum spec_disk d)
{
	return spec_disk_choices.list[d];
}

bool spec_os_is_windows(enum spec_os os)
{
	return os >= SPEC_OS_W2K;
}

int spec_os_find(const char *name, enum spec_os *ret, struct err *e)
{
	char shown[64], list[CHOICES_TEXT_MAX];
	int found = choices_find(&spec_os_choices, name);

	if (found >= 0) {
		*ret = (enum spec_os)found;
		return 0;
	}
	str_escape(name, strlen(name), shown, sizeof(shown));
	return err_set(e, ERR_INVALID, "os_type: \"%s\" is not one of %s", shown,
		choices_text(&spec_os_choices, list, sizeof(list)));
}

const struct vm_spec *spec_find_vm(const struct sandbox_spec *s, const char *name)
{
	for (size_t i = 0; i < s->n_vms; i++)
		if (strcasecmp(s->vms[i].name, name) == 0)
			return &s->vms[i];
	for (size_t i = 0; i < s->n_vms; i++)
		if (s->vms[i].service && strcasecmp(s->vms[i].service->name, name) == 0)
			return &s->vms[i];
	return NULL;
}

const struct vm_spec *spec_default_vm(const struct sandbox_spec *s)
{
	for (size_t i = 0; i < s->n_vms; i++)
		if (s->vms[i].is_sandbox)
			return &s->vms[i];
	return NULL;
}

bool spec_waits_for(const struct sandbox_spec *s, size_t a, size_t b)
{
	const struct vm_spec *vm = &s->vms[a];

	if (b < a && s->vms[b].await_before_next_vm)
		return true;
	for (size_t i = 0; i < vm->n_depends_on; i++)
		if (strcasecmp(vm->depends_on[i].vm, s->vms[b].name) == 0)
			return true;
	return false;
}

bool spec_is_waited_for(const struct sandbox_spec *s, size_t vm)
{
	for (size_t i = 0; i < s->n_vms; i++)
		if (i != vm && spec_waits_for(s, i, vm))
			return true;
	return false;
}

static bool can_start(const struct sandbox_spec *s, size_t vm, const bool *started)
{
	for (size_t other = 0; other < s->n_vms; other++)
		if (!started[other] && spec_waits_for(s, vm, other))
			return false;
	return true;
}

void spec_start_order(const struct sandbox_spec *s, size_t *order)
{
	bool started[SPEC_VMS_MAX] = {false};

	for (size_t n = 0; n < s->n_vms; n++) {
		size_t vm = 0;

		/* There always is one, or spec_parse would have found a cycle. */
		while (vm < s->n_vms - 1 && (started[vm] || !can_start(s, vm, started)))
			vm++;
		started[vm] = true;
		order[n] = vm;
	}
}

const char *spec_place(char buf[static SPEC_PLACE_MAX], const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf, SPEC_PLACE_MAX, fmt, ap);
	va_end(ap);
	return buf;
}

int spec_err_at(struct err *e, enum err_kind kind, const char *file, int line, const char *place,
	const char *fmt, ...)
{
	char text[sizeof(e->msg)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set_at(e, kind, file, line, "%s: %s", place, text);
}
