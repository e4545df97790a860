#include "daemon/registry/describe.h"

#include <time.h>

#include "util/json.h"

const char *sandbox_state_name(enum sandbox_state state)
{
	static const char *const names[] = {"creating", "running", "removing"};

	return names[state];
}

static json_t *vm_to_json(struct sandbox *sb, struct driver_sandbox *driven, unsigned i)
{
	static const char *const states[] = {"starting", "running", "dead"};
	const struct vm_spec *vm = &sb->spec->vms[i];
	struct vm_info info = {.image = "", .user = "", .accelerator = "", .link = ""};
	json_t *j, *screen = screens_to_json(&sb->screens, i);

	if (driven)
		sb->driver->ops->describe(driven, i, &info);
	/* "way", "place" and "known_as" are the names that clients know. */
	j = json_pack("{s:s, s:s, s:b, s:b, s:s, s:s, s:i, s:i, s:i, s:s, s:s}", "name", vm->name,
		"state", states[info.state], "sandbox", vm->is_sandbox, "default",
		vm == spec_default_vm(sb->spec), "image", info.image, "user", info.user, "ram_mb",
		(int)vm->ram_mb, "vcpus", (int)vm->vcpus, "pid", info.pid, "accelerator",
		info.accelerator, "way", info.link);
	if (j && driven && sb->driver->ops->screenshot && vm->vga != SPEC_VGA_NONE)
		json_object_set_new(j, "display", json_true());
	if (j && info.backend_dir)
		json_object_set_new(j, "place", json_text(info.backend_dir));
	if (j && info.backend_name)
		json_object_set_new(j, "known_as", json_text(info.backend_name));
	if (j && info.ssh_host)
		json_object_set_new(j, "ssh_host", json_text(info.ssh_host));
	if (j && info.start)
		json_object_set_new(j, "start", json_string(info.start));
	if (j && info.cold_reason)
		json_object_set_new(j, "cold_reason", json_text(info.cold_reason));
	if (j && info.lack)
		json_object_set_new(j, "lack", json_text(info.lack));
	if (j && screen)
		json_object_set_new(j, "screen", screen);
	if (j && info.error[0])
		json_object_set_new(j, "error", json_text(info.error));
	if (j && info.server) {
		json_object_set_new(j, "server", json_text(info.server));
		json_object_set_new(j, "vmid", json_integer(info.vmid));
		json_object_set_new(j, "console", json_text(info.console ? info.console : ""));
		if (info.zone)
			json_object_set_new(j, "zone", json_text(info.zone));
	}
	return j;
}

static json_t *vms_to_json(struct sandbox *sb, struct driver_sandbox *driven)
{
	json_t *all = json_array();

	for (unsigned i = 0; all && i < sb->spec->n_vms; i++)
		json_array_append_new(all, vm_to_json(sb, driven, i));
	return all;
}

int sandbox_made_to_json(
	struct sandbox *sb, struct driver_sandbox *driven, json_t **ret, struct err *e)
{
	/* "sandbox" is what "id" was called here at first. */
	return json_make(ret, e, "{s:s, s:s, s:s, s:o}", "sandbox", sb->id, "id", sb->id, "name",
		sb->name, "vms", vms_to_json(sb, driven));
}

/* Adds what people did in it, if anybody did. */
static json_t *with_touches(struct sandbox *sb, json_t *j)
{
	json_t *touched = NULL;

	if (j && touches_to_json(&sb->touches, &touched) &&
		(!touched || json_object_set_new(j, "touched", touched) == 0))
		return j;
	json_decref(j);
	return NULL;
}

json_t *sandbox_to_json_locked(struct sandbox *sb)
{
	bool ready = sb->standby && sb->state == SANDBOX_RUNNING;

	return with_touches(
		sb, json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:b, s:i, s:O, s:o}", "id", sb->id,
			    "name", sb->name, "driver", sb->driver->ops->name, "state",
			    ready ? "standby" : sandbox_state_name(sb->state), "created",
			    (json_int_t)sb->created, "age", (json_int_t)(time(NULL) - sb->created),
			    "detached", sb->lease == 0, "owner_pid", sb->owner_pid, "labels",
			    sb->labels, "vms", vms_to_json(sb, sb->driven)));
}
