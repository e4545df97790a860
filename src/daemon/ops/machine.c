/* Operations on a VM from outside its guest: logs. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/ops/args.h"
#include "wire/wire.h"
#include "util/auto.h"
#include "util/json.h"

#define FOLLOW_PAUSE 0.2 /* seconds; a log file cannot be waited on */

/* Sends the next piece of the log. 1: there was one; 0: this is the end at the moment. */
static int send_more(struct request *rq, int fd, struct err *e)
{
	uint8_t piece[16384];
	ssize_t n = read(fd, piece, sizeof(piece));

	if (n < 0)
		return err_sys(e, errno, "log");
	if (n > 0 && request_output(rq, WIRE_BODY, (struct bytes){piece, (size_t)n}, e) < 0)
		return -1;
	return n > 0;
}

/* Whether the log was full and began anew, in another file of the same name. */
static bool replaced(int fd, const char *path)
{
	struct stat open_one, named;

	return fstat(fd, &open_one) == 0 && stat(path, &named) == 0 &&
	       open_one.st_ino != named.st_ino;
}

static int send_log(struct request *rq, const char *path, bool follow, struct err *e)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	for (;;) {
		int sent = send_more(rq, fd, e);

		if (sent < 0 || op_check(&rq->op, e) < 0)
			return -1;
		if (sent)
			continue;
		if (!follow)
			return 0;
		if (replaced(fd, path)) {
			close(fd);
			fd = open(path, O_RDONLY | O_CLOEXEC);
			if (fd < 0)
				return err_sys(e, errno, "%s", path);
			continue;
		}
		if (op_pause(&rq->op, FOLLOW_PAUSE, e) < 0)
			return -1;
	}
}

/* The guest wrote it, and goes on writing: output waits for the client as that of a command does.
 */
static int send_service_log(
	struct request *rq, struct borrower *b, unsigned vm, bool follow, struct err *e)
{
	struct guest_io io = request_io(rq);

	io.in = NULL;
	if (!b->sb->driver->ops->service_log)
		return err_set(e, ERR_UNSUPPORTED, "VMs of the %s driver have no service",
			b->sb->driver->ops->name);
	return b->sb->driver->ops->service_log(b->driven, &rq->op, vm, follow, &io, e);
}

static int send_file_log(struct request *rq, struct borrower *b, unsigned vm, const char *kind,
	bool follow, struct err *e)
{
	auto_free char *path = NULL;
	enum vm_log which = strcmp(kind, "qemu") == 0 ? VM_LOG_BACKEND : VM_LOG_CONSOLE;

	if (b->sb->driver->ops->log_path(b->driven, vm, which, &path, e) < 0)
		return -1;
	return send_log(rq, path, follow, e);
}

int handle_logs(struct request *rq, json_t **ret, struct err *e)
{
	const char *sandbox, *name = NULL, *kind = "console";
	struct borrower b;
	int follow = 0, rc;
	unsigned vm;

	(void)ret;
	if (json_get(rq->args, "args", e, "{s:s, s?s, s?s, s?b}", "sandbox", &sandbox, "vm", &name,
		    "kind", &kind, "follow", &follow) < 0)
		return -1;
	if (strcmp(kind, "console") != 0 && strcmp(kind, "qemu") != 0 &&
		strcmp(kind, "service") != 0)
		return err_set(e, ERR_INVALID, "kind is \"console\", \"qemu\" or \"service\"");
	if (borrow_vm(rq, sandbox, name, &b, &vm, e) < 0)
		return -1;
	/* The sandbox stays borrowed meanwhile, so that its removal ends the stream. */
	if (strcmp(kind, "service") == 0)
		rc = send_service_log(rq, &b, vm, follow, e);
	else
		rc = send_file_log(rq, &b, vm, kind, follow, e);
	if (rc < 0)
		registry_explain(rq->daemon->registry, &b, e);
	registry_return(rq->daemon->registry, &b);
	return rc;
}
