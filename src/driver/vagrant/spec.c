/* What a spec becomes when its Vagrantfile has said what machines there are. */
#include "driver/vagrant/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util/auto.h"
#include "util/json.h"
#include "util/system/log.h"
#include "util/str.h"

static bool is_called(const struct vagrant_vm *vm, const char *name)
{
	return strcasecmp(vm->name, name) == 0 || strcasecmp(vm->machine, name) == 0;
}

static struct vagrant_vm *find_primary(struct vagrant_sandbox *b, const char *name)
{
	for (unsigned i = 0; i < b->n_vms; i++)
		if (is_called(b->vms[i], name))
			return b->vms[i];
	/* The beginning of a name will do, as evals for the older plugin write it. */
	for (unsigned i = 0; i < b->n_vms; i++)
		if (strncasecmp(b->vms[i]->name, name, strlen(name)) == 0)
			return b->vms[i];
	return NULL;
}

/* "a, b, c", for messages. */
static const char *list_names(const struct vagrant_sandbox *b, char *out, size_t size)
{
	out[0] = 0;
	for (unsigned i = 0; i < b->n_vms; i++)
		snprintf(out + strlen(out), size - strlen(out), "%s%s", i ? ", " : "",
			b->vms[i]->name);
	return out;
}

/* Puts the machines into Vagrant's order, whichever answered first, but the default machine before
 * all others. */
static int sort_vms(struct vagrant_sandbox *b, const struct op *op, struct err *e)
{
	struct vagrant_vm *sorted[VAGRANT_MACHINES_MAX], *first = NULL;
	char names[300];
	unsigned n = 0;

	if (b->want.primary)
		first = find_primary(b, b->want.primary);
	if (b->want.primary && !first) {
		err_set(e, ERR_INVALID,
			"native.primary_vm: the Vagrantfile has no machine \"%.60s\"; it has %s",
			b->want.primary, list_names(b, names, sizeof(names)));
		if (!b->want.any_primary)
			return -1;
		op_progress(op, 0, 0, "%s", e->msg);
		log_err(op, LOG_WARN, e, "sandbox %s: its default machine is the first", b->id);
	}
	if (first)
		sorted[n++] = first;
	for (unsigned i = 0; i < b->report->n_machines; i++)
		for (unsigned k = 0; k < b->n_vms; k++)
			if (b->vms[k] != first &&
				strcmp(b->vms[k]->machine, b->report->machines[i].name) == 0)
				sorted[n++] = b->vms[k];
	memcpy(b->vms, sorted, n * sizeof(sorted[0]));
	for (unsigned i = 0; i < b->n_vms; i++) {
		for (unsigned k = 0; k < i; k++)
			if (strcasecmp(b->vms[i]->name, b->vms[k]->name) == 0)
				return err_set(e, ERR_INVALID, "two machines are called \"%.60s\"",
					b->vms[i]->name);
		if (i && strcasecmp(b->vms[i]->name, SPEC_DEFAULT_NAME) == 0)
			return err_set(e, ERR_INVALID,
				"the machine \"default\" is not the first one: make it the primary "
				"one, or give it another name");
	}
	return 0;
}

/*
 * Entries of the spec are settings for machines. The first may go without a name, or be called
 * "default": then it is for the default machine.
 */
static int match_settings(struct vagrant_sandbox *b, const struct sandbox_spec *asked,
	const struct vm_spec *settings[VAGRANT_MACHINES_MAX], struct err *e)
{
	char names[300];

	for (size_t i = 0; i < asked->n_vms; i++) {
		unsigned at = 0;

		while (at < b->n_vms && !is_called(b->vms[at], asked->vms[i].name))
			at++;
		if (at == b->n_vms && strcasecmp(asked->vms[i].name, SPEC_DEFAULT_NAME) == 0)
			at = 0;
		if (at == b->n_vms)
			return spec_err(e, SPEC_PLACE("vms[%zu].name", i),
				"the Vagrantfile has no machine \"%.60s\"; it has %s",
				asked->vms[i].name, list_names(b, names, sizeof(names)));
		settings[at] = &asked->vms[i];
	}
	return 0;
}

/* Parsed under names that every spec may have; a Vagrantfile may have others. */
static int add_vm(json_t *vms, unsigned i, const struct vm_spec *settings, struct err *e)
{
	char name[32];
	json_t *vm;

	snprintf(name, sizeof(name), "vm-%u", i);
	if (json_make(&vm, e, "{s:s, s:b}", "name", name, "is_sandbox",
		    settings ? settings->is_sandbox : true) < 0)
		return -1;
	if (settings && settings->user)
		json_object_set_new(vm, "user", json_string(settings->user));
	return json_array_append_new(vms, vm) < 0 ? err_oom(e) : 0;
}

int vagrant_sandbox_spec(struct vagrant_sandbox *b, const struct op *op,
	const struct sandbox_spec *asked, struct err *e)
{
	const struct vm_spec *settings[VAGRANT_MACHINES_MAX] = {0};
	auto_spec struct sandbox_spec *spec = NULL;
	auto_json json_t *j = NULL, *vms = json_array();

	if (sort_vms(b, op, e) < 0 || match_settings(b, asked, settings, e) < 0 ||
		json_make(&j, e, "{s:s, s:O, s:O}", "driver", "vagrant", "native", asked->native,
			"vms", vms) < 0)
		return -1;
	for (unsigned i = 0; i < b->n_vms; i++)
		if (add_vm(vms, i, settings[i], e) < 0)
			return -1;
	if (spec_parse(j, &spec, e) < 0)
		return -1;
	for (unsigned i = 0; i < b->n_vms; i++) {
		struct vagrant_vm *vm = b->vms[i];
		char *name = NULL;

		if (str_dup(vm->name, &name, e) < 0)
			return -1;
		free(spec->vms[i].name);
		spec->vms[i].name = name;
		vm->for_commands = spec->vms[i].is_sandbox;
		if (spec->vms[i].user)
			snprintf(vm->user, sizeof(vm->user), "%s", spec->vms[i].user);
	}
	b->spec = take_ptr(&spec);
	return 0;
}
