/*
 * request.h - one request of a client: its arguments, its op, its input, its answers. The request's
 * own thread runs the operation's handler, which returns -1 with an error, or 0 with a result
 * object.
 *
 * Thread contract: a request belongs to its thread; what the session's thread does to it is said
 * below.
 */
#pragma once

#include "daemon/session.h"
#include "guestlink/guest.h"

enum request_input { INPUT_NONE, INPUT_BLOB, INPUT_STREAM };

struct request {
	struct session *session;
	struct daemon *daemon;
	json_int_t id;
	const struct handler *handler;
	json_t *args;
	enum request_input input;
	struct op op;
	struct inbox *in; /* messages of enum guest_input */

	/* flow control of the input: bytes that the client has sent, the request's thread has not
	 * consumed, or has consumed without telling the client */
	size_t outstanding; /* under the session's lock */
	size_t uncredited;  /* consumed, but not yet told; the request's thread's own */

	/* for clients that ask how long it took; CLOCK_MONOTONIC */
	int64_t received_ns; /* when its frame came; 0: the client does not ask */
	int64_t guest_ns;    /* how long the guest, and the link into it, took of that */

	struct request *next; /* in the session */
};

struct handler {
	const char *op;
	int (*run)(struct request *rq, json_t **ret_result, struct err *e);
	bool takes_input;
	bool urgent;     /* it only looks, or ends something: allowed when the daemon is full */
	bool any_config; /* allowed when the configuration is wrong */
};

/* NULL: no such operation. */
const struct handler *handler_find(const char *op);

/* Sends output; stream is enum wire_stream. Waits for the client to read. */
int request_output(struct request *rq, int stream, struct bytes data, struct err *e);
/* The request's input and output, for operations of a guest. */
struct guest_io request_io(struct request *rq);

/* Records that a person did something in a sandbox that is borrowed, if it is a person who acts
 * over this connection. Whatever has a terminal is for a person. */
void request_touch(struct request *rq, struct sandbox *sb, enum touch what);

/* For the session's thread: checks the frame and starts the request's thread. A wrong request is
 * answered with an error; -1: the client broke the protocol. */
int request_start(struct session *s, json_t *msg, struct bytes blob, struct err *e);
/* For the session's thread, with the session's lock held: a data, eof, cancel, resize or signal
 * frame. -1: the client broke the protocol. */
int request_input_locked(
	struct request *rq, const char *type, json_t *msg, struct bytes blob, struct err *e);

/* The handlers of the operations, which are defined in ops/, in files by subject. */
int handle_up(struct request *rq, json_t **ret, struct err *e);
int handle_standby(struct request *rq, json_t **ret, struct err *e);
int handle_compose(struct request *rq, json_t **ret, struct err *e);
int handle_validate(struct request *rq, json_t **ret, struct err *e);
int handle_ls(struct request *rq, json_t **ret, struct err *e);
int handle_watch(struct request *rq, json_t **ret, struct err *e);
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
int handle_input(struct request *rq, json_t **ret, struct err *e);
int handle_screen(struct request *rq, json_t **ret, struct err *e);
int handle_logs(struct request *rq, json_t **ret, struct err *e);
int handle_net_show(struct request *rq, json_t **ret, struct err *e);
int handle_net_forward(struct request *rq, json_t **ret, struct err *e);
int handle_net_unforward(struct request *rq, json_t **ret, struct err *e);
int handle_net_capture(struct request *rq, json_t **ret, struct err *e);
int handle_image_ls(struct request *rq, json_t **ret, struct err *e);
int handle_image_inspect(struct request *rq, json_t **ret, struct err *e);
int handle_image_build(struct request *rq, json_t **ret, struct err *e);
int handle_image_pull(struct request *rq, json_t **ret, struct err *e);
int handle_image_import(struct request *rq, json_t **ret, struct err *e);
int handle_image_commit(struct request *rq, json_t **ret, struct err *e);
int handle_image_export(struct request *rq, json_t **ret, struct err *e);
int handle_image_rm(struct request *rq, json_t **ret, struct err *e);
int handle_template_ls(struct request *rq, json_t **ret, struct err *e);
int handle_template_rm(struct request *rq, json_t **ret, struct err *e);
int handle_doctor(struct request *rq, json_t **ret, struct err *e);
int handle_gc(struct request *rq, json_t **ret, struct err *e);
int handle_pool(struct request *rq, json_t **ret, struct err *e);
int handle_pool_images(struct request *rq, json_t **ret, struct err *e);
int handle_info(struct request *rq, json_t **ret, struct err *e);
int handle_shutdown(struct request *rq, json_t **ret, struct err *e);
