/* dispatch.c - hands each message to the function that deals with it. */

#include <string.h>
#include <unistd.h>

#include "moat-guest/command/exec.h"
#include "moat-guest/files/files.h"
#include "moat-guest/identity/identity.h"

/* A new conversation begins: all that the last one has started ends. */
static bool hello(struct runner *r, const struct wire_msg *m)
{
	struct wire_msg reply = {
		.type = WIRE_HELLO_REPLY, .version = WIRE_VERSION, .code = (uint32_t)getpid()};

	jobs_abandon(r);
	memcpy(reply.nonce, m->nonce, sizeof(reply.nonce));
	return uplink_send(&r->uplink, &reply, NULL, 0);
}

static bool data(struct job *job, const struct frame *f)
{
	if (f->body_len > WIRE_PIECE || job->held + f->body_len > WIRE_WINDOW)
		return false;
	job->held += f->body_len;
	if (job->ops->data)
		job->ops->data(job, f->body, f->body_len);
	else
		job_consume(job, f->body_len, true);
	return true;
}

static bool credit(struct job *job, const struct wire_msg *m)
{
	bool waiting = job->credit == 0;

	if (m->count > WIRE_WINDOW - job->credit)
		return false;
	job->credit += m->count;
	if (waiting && job->credit && job->ops->credited)
		job->ops->credited(job);
	return true;
}

/* Hands a message to its job. */
static bool to_job(struct job *job, const struct wire_msg *m, const struct frame *f)
{
	switch (m->type) {
	case WIRE_DATA:
		return data(job, f);
	case WIRE_CREDIT:
		return credit(job, m);
	case WIRE_EOF:
		if (job->ops->eof)
			job->ops->eof(job);
		return true;
	case WIRE_SIGNAL:
		if (job->ops->signal)
			job->ops->signal(job, m->code);
		return true;
	case WIRE_RESIZE:
		if (job->ops->resize)
			job->ops->resize(job, m->rows, m->cols);
		return true;
	case WIRE_CANCEL:
		job->ops->cancel(job);
		return true;
	default:
		return false;
	}
}

static bool pong(struct runner *r, uint32_t id)
{
	struct wire_msg m = {.type = WIRE_PONG, .id = id};

	return uplink_send(&r->uplink, &m, NULL, 0);
}

bool runner_handle(struct runner *r, const struct wire_msg *m, const struct frame *f)
{
	struct job *job = job_find(r, m->id);

	switch (m->type) {
	case WIRE_HELLO:
		return hello(r, m);
	case WIRE_PING:
		return pong(r, m->id);
	case WIRE_EXEC:
		return !job && exec_start(r, m, f);
	case WIRE_READ:
	case WIRE_WRITE:
	case WIRE_LIST:
	case WIRE_MKDIR:
	case WIRE_SYMLINK:
		return !job && file_handle(r, m, f);
	case WIRE_IDENTITY:
		return !job && identity_handle(r, m, f);
	case WIRE_DATA:
	case WIRE_EOF:
	case WIRE_CREDIT:
	case WIRE_SIGNAL:
	case WIRE_RESIZE:
	case WIRE_CANCEL:
		/* A job that has just ended: the message and the answer have crossed. */
		return !job || to_job(job, m, f);
	default: /* only a guest says these */
		return false;
	}
}
