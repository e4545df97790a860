/*
 * QEMU calls it migration, to a file or from one. An open file goes through the monitor, not a
 * name: QEMU may open no path of ours.
 */
#include "driver/qemu/vm/state.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/json.h"
#include "util/system/memory.h"
#include "util/str.h"

#define MB_A_SECOND 20.0  /* of memory, to the disk of a host that is slow, or from it */
#define SAVE_POLL   0.005 /* seconds; QEMU has no fd to wait on that would say "saved" */
#define NO_LIMIT    ((json_int_t)1 << 50)
enum { FULL_BYTES = 1 << 20 }; /* a disk with less than that is full */

static int call(struct qemu_vm *vm, const struct op *op, const char *command, json_t *args,
	json_t **ret, struct err *e)
{
	if (qmp_call(vm->qmp, op, command, args, -1, ret, e) < 0)
		return qemu_vm_explain(vm, e);
	return 0;
}

/* Sets whether memory that is a shared file is left out of the state. */
static int set_ignore_shared(struct qemu_vm *vm, const struct op *op, bool ignore, struct err *e)
{
	return call(vm, op, "migrate-set-capabilities",
		json_pack("{s:[{s:s, s:b}]}", "capabilities", "capability", "x-ignore-shared",
			"state", ignore),
		NULL, e);
}

static int pass_file(struct qemu_vm *vm, const struct op *op, int fd, struct err *e)
{
	if (qmp_call(vm->qmp, op, "getfd", json_pack("{s:s}", "fdname", "state"), fd, NULL, e) < 0)
		return qemu_vm_explain(vm, e);
	return 0;
}

/* 1: saved, 0: not yet. */
static int look(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	auto_json json_t *answer = NULL;
	const char *status, *why;
	char words[300];

	if (call(vm, op, "query-migrate", NULL, &answer, e) < 0)
		return -1;
	status = json_string_value(json_object_get(answer, "status"));
	if (status && strcmp(status, "completed") == 0)
		return 1;
	if (!status || (strcmp(status, "failed") != 0 && strcmp(status, "cancelled") != 0))
		return 0;
	why = json_string_value(json_object_get(answer, "error-desc"));
	if (!why)
		why = "is the disk full?";
	str_escape(why, strlen(why), words, sizeof(words));
	return err_set(
		e, ERR_BACKEND, "the state of VM %s cannot be saved: %s", vm->spec->name, words);
}

static int await_saved(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	for (;;) {
		int saved = look(vm, op, e);

		if (saved)
			return saved < 0 ? -1 : 0;
		if (op_pause(op, SAVE_POLL, e) < 0)
			return -1;
	}
}

/* QEMU has many words for a full disk, or none: so we look at the disk ourselves. */
static int explain_full(int fd, const struct qemu_vm *vm, struct err *e)
{
	struct statvfs fs;

	if (e->sys == ENOSPC || (fstatvfs(fd, &fs) == 0 &&
					(unsigned long long)fs.f_bavail * fs.f_frsize < FULL_BYTES))
		return err_set(e, ERR_LIMIT, "the state of VM %s cannot be saved: the disk is full",
			vm->spec->name);
	return -1;
}

/* The daemon makes the pages of a file in memory, looking first whether there are enough: QEMU
 * would be killed. */
static int reserve(const struct op *op, int fd, uint64_t size, struct err *e)
{
	return memory_backs(fd) ? memory_reserve(op, fd, size, "a saved state", e) : 0;
}

/* Cuts off what was reserved and not used. QEMU shares our position in the file. */
static int give_rest_back(int fd, struct err *e)
{
	off_t end = lseek(fd, 0, SEEK_CUR);

	if (memory_backs(fd) && (end < 0 || ftruncate(fd, end) < 0))
		return err_sys(e, errno, "saved state");
	return 0;
}

double qemu_state_seconds(const struct qemu_vm *vm)
{
	return QEMU_ANSWER_SECONDS + vm->spec->ram_mb / MB_A_SECOND;
}

int qemu_state_save(
	struct qemu_vm *vm, const struct op *op, const char *path, bool own_memory, struct err *e)
{
	uint64_t most = own_memory ? (uint64_t)vm->spec->ram_mb << 20 : 0;
	int sync = memory_is_short(most) ? O_DSYNC : 0;
	auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | sync, 0600);
	struct op cleanup = op_for_cleanup(10), soon;
	struct err ignored;

	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	if (reserve(op, fd, most, e) < 0)
		return explain_full(fd, vm, e);
	soon = op_within(op, qemu_state_seconds(vm));
	if (set_ignore_shared(vm, &soon, !own_memory, e) < 0 ||
		call(vm, &soon, "migrate-set-parameters",
			json_pack("{s:I}", "max-bandwidth", NO_LIMIT), NULL, e) < 0 ||
		pass_file(vm, &soon, fd, e) < 0)
		return -1;
	if (call(vm, &soon, "migrate", json_pack("{s:s}", "uri", "fd:state"), NULL, e) == 0 &&
		await_saved(vm, &soon, e) == 0)
		return give_rest_back(fd, e);
	/* QEMU may be saving, whatever became of its answer. A VM that goes on while it is saved
	 * would stop when that is done, and could not be saved again before. */
	qemu_vm_insist(vm, &cleanup, "migrate_cancel", &ignored);
	return e->kind == ERR_BACKEND ? explain_full(fd, vm, e) : -1;
}

int qemu_state_load(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	auto_fd int fd = open(vm->load, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, errno, "%s", vm->load);
	if (set_ignore_shared(vm, op, vm->copied, e) < 0 || pass_file(vm, op, fd, e) < 0)
		return -1;
	return call(vm, op, "migrate-incoming", json_pack("{s:s}", "uri", "fd:state"), NULL, e);
}

int qemu_state_wait(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	for (;;) {
		auto_json json_t *answer = NULL;
		const char *status;

		if (call(vm, op, "query-status", NULL, &answer, e) < 0)
			return -1;
		status = json_string_value(json_object_get(answer, "status"));
		if (!status || strcmp(status, "inmigrate") != 0)
			return 0;
		if (op_pause(op, SAVE_POLL, e) < 0)
			return -1;
	}
}

int qemu_nics_plug(struct qemu_vm *vm, const struct op *op, bool in, struct err *e)
{
	struct op soon = op_within(op, QEMU_ANSWER_SECONDS);

	for (size_t i = 0; i < vm->spec->n_nics; i++) {
		char name[24];

		snprintf(name, sizeof(name), "net%zu", i);
		if (call(vm, &soon, "set_link", json_pack("{s:s, s:b}", "name", name, "up", in),
			    NULL, e) < 0)
			return -1;
	}
	return 0;
}
