/* Operations on a sandbox's networks: what they look like, ports on the host, captures. */
#include <stddef.h>

#include "daemon/ops/args.h"
#include "daemon/request.h"
#include "wire/wire.h"
#include "util/json.h"

enum { PORT_MAX = 65535 };

/* Borrows the sandbox if its driver has net_show. */
static int borrow(struct request *rq, const char *sandbox, struct borrower *b, struct err *e)
{
	if (registry_borrow(rq->daemon->registry, sandbox, &rq->op, b, e) < 0)
		return -1;
	if (b->sb->driver->ops->net_show)
		return 0;
	err_set(e, ERR_UNSUPPORTED, "the %s driver does not look into its networks",
		b->sb->driver->ops->name);
	registry_return(rq->daemon->registry, b);
	return -1;
}

int handle_net_show(struct request *rq, json_t **ret, struct err *e)
{
	const char *sandbox;
	struct borrower b;
	int rc;

	if (json_get(rq->args, "args", e, "{s:s}", "sandbox", &sandbox) < 0 ||
		borrow(rq, sandbox, &b, e) < 0)
		return -1;
	rc = b.sb->driver->ops->net_show(b.driven, &rq->op, ret, e);
	registry_return(rq->daemon->registry, &b);
	return rc;
}

/* Likewise, if the driver has net_forward. */
static int borrow_forwards(
	struct request *rq, const char *sandbox, struct borrower *b, struct err *e)
{
	if (borrow(rq, sandbox, b, e) < 0)
		return -1;
	if (b->sb->driver->ops->net_forward)
		return 0;
	err_set(e, ERR_UNSUPPORTED, "the %s driver forwards no ports", b->sb->driver->ops->name);
	registry_return(rq->daemon->registry, b);
	return -1;
}

static int check_port(const char *what, int port, int min, struct err *e)
{
	return port < min || port > PORT_MAX
		       ? err_set(e, ERR_INVALID, "args.%s: %d is no port", what, port)
		       : 0;
}

int handle_net_forward(struct request *rq, json_t **ret, struct err *e)
{
	const char *sandbox, *name = NULL;
	int port, host_port = 0, rc;
	struct borrower b;
	unsigned vm;

	if (json_get(rq->args, "args", e, "{s:s, s?s, s:i, s?i}", "sandbox", &sandbox, "vm", &name,
		    "port", &port, "host_port", &host_port) < 0 ||
		check_port("port", port, 1, e) < 0 ||
		check_port("host_port", host_port, 0, e) < 0 ||
		borrow_forwards(rq, sandbox, &b, e) < 0)
		return -1;
	request_touch(rq, b.sb, TOUCH_FORWARDED);
	rc = find_vm(b.sb, name, &vm, e);
	if (rc == 0)
		rc = b.sb->driver->ops->net_forward(
			b.driven, &rq->op, vm, (unsigned)port, (unsigned)host_port, ret, e);
	registry_return(rq->daemon->registry, &b);
	return rc;
}

int handle_net_unforward(struct request *rq, json_t **ret, struct err *e)
{
	const char *sandbox;
	struct borrower b;
	int host_port, rc;

	(void)ret;
	if (json_get(rq->args, "args", e, "{s:s, s:i}", "sandbox", &sandbox, "host_port",
		    &host_port) < 0 ||
		check_port("host_port", host_port, 1, e) < 0 ||
		borrow_forwards(rq, sandbox, &b, e) < 0)
		return -1;
	request_touch(rq, b.sb, TOUCH_FORWARDED);
	rc = b.sb->driver->ops->net_unforward(b.driven, &rq->op, (unsigned)host_port, e);
	registry_return(rq->daemon->registry, &b);
	return rc;
}

static int send_piece(void *arg, struct bytes data, struct err *e)
{
	return request_output(arg, WIRE_BODY, data, e);
}

/* Captures until the client has enough, or the sandbox is removed. */
int handle_net_capture(struct request *rq, json_t **ret, struct err *e)
{
	const char *sandbox, *vnet = NULL;
	struct borrower b;
	int rc;

	(void)ret;
	if (json_get(rq->args, "args", e, "{s:s, s?s}", "sandbox", &sandbox, "vnet", &vnet) < 0 ||
		borrow(rq, sandbox, &b, e) < 0)
		return -1;
	rc = b.sb->driver->ops->net_capture
		     ? b.sb->driver->ops->net_capture(b.driven, &rq->op, vnet, send_piece, rq, e)
		     : err_set(e, ERR_UNSUPPORTED,
			       "the networks of a %s sandbox are not moat's: it cannot capture "
			       "there",
			       b.sb->driver->ops->name);
	registry_return(rq->daemon->registry, &b);
	return rc;
}
