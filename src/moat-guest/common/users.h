/*
 * users.h - the user that a command runs as, and that a file operation has the permissions of.
 *
 * The runner reads /etc/passwd and /etc/group itself (lookup.c), not through libc: in the guest
 * they may be a FIFO, or an nscd socket may never answer, and the runner must not hang on either.
 * Users known only to LDAP and the like can be given by number.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
	USER_GROUPS_MAX = 256,
	USER_NAME_MAX = 256,
	USER_TEXT_MAX = 1024,
};

struct user {
	uid_t uid;
	gid_t gid;
	gid_t groups[USER_GROUPS_MAX]; /* supplementary ones and gid, as initgroups(3) would set */
	size_t n_groups;
	char name[USER_NAME_MAX]; /* empty if the uid has no entry */
	char home[USER_TEXT_MAX], shell[USER_TEXT_MAX];
};

/*
 * who: empty for whoever the runner is, a name, or a number. 0 or an errno: ENOENT if there is no
 * such name, EPERM if the runner is not root and may not become that user. A number without an
 * entry is fine: its group is the one with the same number if that exists, else 65534 (nogroup),
 * its home is "/". A home that is no directory becomes "/". "USER:GROUP" is in that group alone.
 * "USER:" is in the group of root if the number has no entry, as in a container.
 */
int user_find(const char *who, struct user *ret);

/*
 * Between these two the file system sees the user and not root: open, mkdir and the like succeed or
 * fail as they would for that user. They change the whole process, which is safe because the runner
 * has one thread and does nothing else in between. 0 or an errno; after failure nothing has
 * changed.
 */
int user_fs_enter(const struct user *u);
void user_fs_leave(const struct user *u);

/* Becomes the user for good, in a process about to become a command. 0 or an errno. */
int user_become(const struct user *u);

/*
 * The absolute path that `path` means to a user in cwd: a relative path starts at cwd, a relative
 * or empty cwd at the home. 0 or ENAMETOOLONG; ENOENT for an empty path.
 */
int user_path(const struct user *u, const char *cwd, const char *path, char *out, size_t size);

/* The functions below read no files. Text need not end with NUL or newline. */
struct user_text {
	const char *p;
	size_t len;
};
/* user_find without the check that the home is a directory. */
int user_in(const char *who, struct user_text passwd, struct user_text group, struct user *ret);
/* Finds a user by name, or by uid if name is NULL; fills name, uid, gid, home and shell. */
bool passwd_find(struct user_text passwd, const char *name, uid_t uid, struct user *ret);
bool group_exists(struct user_text group, gid_t gid);
/* Adds the groups that list the user's name, each once. */
void group_gather(struct user_text group, struct user *u);
