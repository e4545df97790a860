/*
 * files.h - READ, WRITE, LIST, MKDIR, SYMLINK. They are done right in the loop, with the
 * permissions of the user that the host names (user_fs_enter). A file system that hangs makes the
 * runner hang: only the guest itself is harmed by that.
 */
#pragma once

#include "moat-guest/common/job.h"
#include "moat-guest/common/users.h"

struct file_request {
	struct runner *runner;
	const struct wire_msg *msg;
	struct user user;
	char path[4096];
	const char *target; /* SYMLINK */
};

/* Each does its operation, or makes a job that will. 0 or an errno. */
int file_read(const struct file_request *req);
int file_write(const struct file_request *req);
int file_list(const struct file_request *req);

/* Handles any of the five messages; answers DONE on failure. False: the frame makes no sense. */
bool file_handle(struct runner *r, const struct wire_msg *m, const struct frame *f);

/* What WIRE_DONE says. */
struct file_done {
	uint32_t id;
	int error;
	uint64_t size;
	uint32_t mode;
	const char *what; /* the path, for the message of a failure */
};
void file_done(struct runner *r, const struct file_done *done);
