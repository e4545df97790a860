/*
 * agent.h - the guest agent of one VM of a Proxmox VE server, call by call. A call costs the server
 * a tenth of a second. The agent does one thing at a time, so we send one call at a time; but two
 * that read files, because the server is long busy with what it has read. Any thread.
 *
 * What the agent says comes from a hostile guest.
 */
#pragma once

#include "guestlink/agent/qga-parse.h"
#include "driver/proxmox/api/api.h"
#include "util/thread/slots.h"

enum {
	PVE_BODY_MAX = 65536,  /* of a call, as a form; 512 KiB since 8.4 */
	PVE_INPUT_MAX = 65536, /* characters of stdin, ASCII */
	PVE_WRITE_MAX = 46080, /* bytes of a file, in one call, if the body allows it */
	PVE_READS_AT_ONCE = 2,
	PVE_READ_MAX = 16 * 1024 * 1024,  /* bytes of a file that one call reads */
	PVE_OUTPUT_MAX = 2 * 1024 * 1024, /* more than that is lost, with the exit status */
	PVE_WRITE_SURE = 15000, /* bytes that always go into one call, whatever they are */
};

struct pve_agent {
	struct pve_api *api;
	const char *node;
	unsigned vmid;
	bool large_calls; /* the server takes calls of 512 KiB, as since 8.4 */
	struct slots calls;
};
void pve_agent_init(struct pve_agent *a); /* members above calls are set */
void pve_agent_done(struct pve_agent *a);

/* What a failed call means for a caller that might try again. */
enum pve_agent_failure {
	PVE_FINAL,      /* trying again cannot help, or op has ended */
	PVE_AGENT_DOWN, /* the agent does not answer, perhaps not yet; nothing was done */
	PVE_UNSURE,     /* what was asked for may have been done, or not */
	PVE_NO_PROGRAM, /* perhaps there is no such program; perhaps it was started all the same */
	PVE_NO_PID,     /* the agent does not know this process, or has forgotten it */
};
enum pve_agent_failure pve_agent_failure(const struct err *e);

int pve_agent_ping(struct pve_agent *a, const struct op *op, struct err *e);
/* Waits, as long as op allows, until the agent answers; a VM that does not run is an error. */
int pve_agent_await(struct pve_agent *a, const struct op *op, struct err *e);

/* argv and input must be ASCII. Not tried again by itself. */
int pve_agent_exec(struct pve_agent *a, const struct op *op, const char *const *argv,
	const char *input, int64_t *ret_pid, struct err *e);
/* 1: the process has ended, and the agent has forgotten it; 0: it runs. */
int pve_agent_status(
	struct pve_agent *a, const struct op *op, int64_t pid, struct qga_exit *ret, struct err *e);
/* Pure: the value that exec-status answered. */
int pve_parse_status(const json_t *value, struct qga_exit *ret, struct err *e);
/* Starts a command and waits for its end. The command may run twice: all of it is tried again
 * while that may help. */
int pve_agent_run(struct pve_agent *a, const struct op *op, const char *const *argv,
	const char *input, struct qga_exit *ret, struct err *e);

/* How many of the next bytes of a file, or of stdin as base64, go into one call: the characters
 * "+/=" of base64 take three bytes each in a form. */
size_t pve_agent_piece(struct bytes rest);
/* Replaces the content of a file by at most pve_agent_piece bytes. Tried again by itself. */
int pve_agent_write(struct pve_agent *a, const struct op *op, const char *path,
	struct bytes content, struct err *e);
/*
 * Up to PVE_READ_MAX bytes of a file from offset on; 1: there may be more. An offset needs a server
 * of version 9.2.
 */
int pve_agent_read(struct pve_agent *a, const struct op *op, const char *path, uint64_t offset,
	struct buf *ret, struct err *e);
