/*
 * files.h - READ, WRITE, LIST, MKDIR, SYMLINK. Done right in the loop, with the permissions of the
 * user they are for (user_fs_enter). A file system that hangs hangs the runner: that is the guest's
 * own loss.
 */
#pragma once

#include "runner/channel.h"
#include "runner/users.h"

struct file_request {
	struct runner *runner;
	const struct wire_msg *msg;
	struct user user;
	char path[4096];
	const char *target; /* SYMLINK */
};

/* Each does it, or makes a channel that will; 0 or an errno. */
int file_read(const struct file_request *req);
int file_write(const struct file_request *req);
int file_list(const struct file_request *req);

/* Handles any of the five; answers DONE on failure. False: the frame makes no sense. */
bool file_handle(struct runner *r, const struct wire_msg *m, const struct frame *f);

/* WIRE_DONE */
struct file_done {
	uint32_t id;
	int error;
	uint64_t size;
	uint32_t mode;
	const char *what; /* of a failure: the path */
};
void file_done(struct runner *r, const struct file_done *done);
