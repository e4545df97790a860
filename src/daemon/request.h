/*
 * request.h - one request of a client: its arguments, its op, its input, its answers. Handlers run
 * on the request's own thread and return -1 with an error, or 0 with a result object.
 */
#pragma once

#include "daemon/session.h"
#include "guest/guest.h"

enum request_input { INPUT_NONE, INPUT_BLOB, INPUT_STREAM };

struct request {
	struct session *session;
	struct daemon *daemon;
	json_int_t id;
	const struct handler *handler;
	json_t *args;
	enum request_input input;
	struct op op;
	struct inbox *in; /* letters of enum guest_letter */

	/* flow control of the input; the session's thread counts up, the request's down */
	pthread_mutex_t mu;
	size_t outstanding;
	size_t uncredited; /* consumed, but not yet told; the request's own */

	/* for clients that ask how long it took; CLOCK_MONOTONIC */
	int64_t received_ns; /* 0: not asked */
	int64_t guest_ns;    /* of that, spent in the guest and on the way there */

	struct request *next; /* in the session */
};

struct handler {
	const char *op;
	int (*run)(struct request *rq, json_t **ret_result, struct err *e);
	bool takes_input;
	bool urgent; /* looks or ends something: possible when nothing else is */
};

/* NULL: no such operation. */
const struct handler *handler_find(const char *op);

/* Sends a piece of output; stream is enum wire_stream. Waits for the client to read. */
int request_output(struct request *rq, int stream, struct bytes data, struct err *e);
/* How guest operations meet this request. */
struct guest_io request_io(struct request *rq);

/* For the session's thread. msg's members are checked here. */
int request_start(struct session *s, json_t *msg, struct bytes blob, struct err *e);
/* A data, eof, cancel, resize or signal frame. -1: the client broke the protocol. */
int request_letter(
	struct request *rq, const char *type, json_t *msg, struct bytes blob, struct err *e);

/* Reads and checks the spec of a client: everything that can be refused before anything is made. */
int read_spec(struct request *rq, json_t *j, struct sandbox_spec **ret, struct driver **ret_driver,
	struct err *e);

/* The handlers, in files by subject. */
int handle_up(struct request *rq, json_t **ret, struct err *e);
int handle_standby(struct request *rq, json_t **ret, struct err *e);
int handle_validate(struct request *rq, json_t **ret, struct err *e);
int handle_ls(struct request *rq, json_t **ret, struct err *e);
int handle_rm(struct request *rq, json_t **ret, struct err *e);
int handle_detach(struct request *rq, json_t **ret, struct err *e);
int handle_snapshot(struct request *rq, json_t **ret, struct err *e);
int handle_restore(struct request *rq, json_t **ret, struct err *e);
int handle_snapshots(struct request *rq, json_t **ret, struct err *e);
int handle_snapshot_rm(struct request *rq, json_t **ret, struct err *e);
int handle_fork(struct request *rq, json_t **ret, struct err *e);
int handle_exec(struct request *rq, json_t **ret, struct err *e);
int handle_read(struct request *rq, json_t **ret, struct err *e);
int handle_write(struct request *rq, json_t **ret, struct err *e);
int handle_list(struct request *rq, json_t **ret, struct err *e);
int handle_mkdir(struct request *rq, json_t **ret, struct err *e);
int handle_symlink(struct request *rq, json_t **ret, struct err *e);
int handle_screenshot(struct request *rq, json_t **ret, struct err *e);
int handle_logs(struct request *rq, json_t **ret, struct err *e);
int handle_net_show(struct request *rq, json_t **ret, struct err *e);
int handle_net_forward(struct request *rq, json_t **ret, struct err *e);
int handle_net_unforward(struct request *rq, json_t **ret, struct err *e);
int handle_net_capture(struct request *rq, json_t **ret, struct err *e);
int handle_image_ls(struct request *rq, json_t **ret, struct err *e);
int handle_image_inspect(struct request *rq, json_t **ret, struct err *e);
int handle_image_build(struct request *rq, json_t **ret, struct err *e);
int handle_image_import(struct request *rq, json_t **ret, struct err *e);
int handle_image_rm(struct request *rq, json_t **ret, struct err *e);
int handle_template_ls(struct request *rq, json_t **ret, struct err *e);
int handle_template_rm(struct request *rq, json_t **ret, struct err *e);
int handle_doctor(struct request *rq, json_t **ret, struct err *e);
int handle_gc(struct request *rq, json_t **ret, struct err *e);
int handle_pool(struct request *rq, json_t **ret, struct err *e);
int handle_pool_images(struct request *rq, json_t **ret, struct err *e);
int handle_info(struct request *rq, json_t **ret, struct err *e);
int handle_shutdown(struct request *rq, json_t **ret, struct err *e);
