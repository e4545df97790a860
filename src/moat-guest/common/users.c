#include "moat-guest/common/users.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	FIELDS_MAX = 7,
	NO_GROUP = 65534,
};

static bool next_line(struct user_text *text, struct user_text *ret)
{
	const char *end;

	if (!text->len)
		return false;
	end = memchr(text->p, '\n', text->len);
	ret->p = text->p;
	ret->len = end ? (size_t)(end - text->p) : text->len;
	text->len -= ret->len + (end ? 1 : 0);
	text->p += ret->len + (end ? 1 : 0);
	return true;
}

/* Splits at colons; what follows the last wanted field is left out. */
static size_t split(struct user_text line, struct user_text field[FIELDS_MAX])
{
	size_t n = 0;

	while (n < FIELDS_MAX) {
		const char *end = line.len ? memchr(line.p, ':', line.len) : NULL;

		field[n] = line;
		if (!end)
			return n + 1;
		field[n].len = (size_t)(end - line.p);
		line.p += field[n].len + 1;
		line.len -= field[n].len + 1;
		n++;
	}
	return n;
}

static bool parse_id(struct user_text text, uint32_t *ret)
{
	uint64_t value = 0;

	if (!text.len)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if (text.p[i] < '0' || text.p[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text.p[i] - '0');
		if (value >= UINT32_MAX) /* (uid_t)-1 means "do not change" to the kernel */
			return false;
	}
	*ret = (uint32_t)value;
	return true;
}

static bool text_is(struct user_text text, const char *s)
{
	return strlen(s) == text.len && memcmp(text.p, s, text.len) == 0;
}

static void copy_text(char *out, size_t size, struct user_text text)
{
	size_t n = text.len < size ? text.len : size - 1;

	memcpy(out, text.p, n);
	out[n] = 0;
}

bool passwd_find(struct user_text passwd, const char *name, uid_t uid, struct user *ret)
{
	struct user_text line, field[FIELDS_MAX] = {0};
	uint32_t found_uid, found_gid;

	while (next_line(&passwd, &line)) {
		size_t n = split(line, field);

		if (n < 4 || !field[0].len || !parse_id(field[2], &found_uid) ||
			!parse_id(field[3], &found_gid))
			continue;
		if (name ? !text_is(field[0], name) : found_uid != uid)
			continue;
		ret->uid = found_uid;
		ret->gid = found_gid;
		copy_text(ret->name, sizeof(ret->name), field[0]);
		if (n > 5 && field[5].len)
			copy_text(ret->home, sizeof(ret->home), field[5]);
		if (n > 6 && field[6].len)
			copy_text(ret->shell, sizeof(ret->shell), field[6]);
		return true;
	}
	return false;
}

bool group_exists(struct user_text group, gid_t gid)
{
	struct user_text line, field[FIELDS_MAX];
	uint32_t found;

	while (next_line(&group, &line))
		if (split(line, field) > 2 && parse_id(field[2], &found) && found == gid)
			return true;
	return false;
}

static void add_group(struct user *u, gid_t gid)
{
	for (size_t i = 0; i < u->n_groups; i++)
		if (u->groups[i] == gid)
			return;
	if (u->n_groups < USER_GROUPS_MAX)
		u->groups[u->n_groups++] = gid;
}

static bool lists_member(struct user_text members, const char *name)
{
	while (members.len) {
		const char *end = memchr(members.p, ',', members.len);
		struct user_text one = {members.p, end ? (size_t)(end - members.p) : members.len};

		if (text_is(one, name))
			return true;
		if (!end)
			return false;
		members.p += one.len + 1;
		members.len -= one.len + 1;
	}
	return false;
}

void group_gather(struct user_text group, struct user *u)
{
	struct user_text line, field[FIELDS_MAX];
	uint32_t gid;

	while (u->name[0] && next_line(&group, &line))
		if (split(line, field) > 3 && parse_id(field[2], &gid) &&
			lists_member(field[3], u->name))
			add_group(u, gid);
}

/* The group of "USER:GROUP", by name or number. */
static int find_group(struct user_text group, const char *who, gid_t *ret)
{
	struct user_text line, field[FIELDS_MAX], all = group;
	uint32_t found;

	while (next_line(&all, &line))
		if (split(line, field) > 2 && text_is(field[0], who) &&
			parse_id(field[2], &found)) {
			*ret = found;
			return 0;
		}
	if (!parse_id((struct user_text){who, strlen(who)}, &found))
		return ENOENT;
	*ret = found;
	return 0;
}

static int look_up(const char *who, struct user_text passwd, struct user_text group, struct user *u)
{
	uint32_t uid = geteuid();

	if (who[0] && passwd_find(passwd, who, 0, u))
		return 0;
	if (who[0] && !parse_id((struct user_text){who, strlen(who)}, &uid)) {
		if (strcmp(who, "root") != 0)
			return ENOENT;
		uid = 0; /* a guest without /etc/passwd still has it */
	}
	if (passwd_find(passwd, NULL, uid, u))
		return 0;
	u->uid = uid;
	u->gid = uid == 0 || group_exists(group, uid) ? uid : NO_GROUP;
	if (uid == 0) {
		memcpy(u->name, "root", sizeof("root"));
		memcpy(u->home, "/root", sizeof("/root"));
	}
	return 0;
}

int user_in(const char *who, struct user_text passwd, struct user_text group, struct user *ret)
{
	const char *colon = strchr(who, ':');
	char name[USER_NAME_MAX];
	int error;

	*ret = (struct user){.home = "/", .shell = "/bin/sh"};
	if (snprintf(name, sizeof(name), "%.*s", (int)(colon ? colon - who : (int)strlen(who)),
		    who) >= (int)sizeof(name))
		return ENOENT;
	error = look_up(name, passwd, group, ret);
	if (error)
		return error;
	if (geteuid() != 0 && ret->uid != geteuid())
		return EPERM;
	if (colon && colon[1])
		error = find_group(group, colon + 1, &ret->gid);
	else if (colon && !ret->name[0])
		ret->gid = 0;
	add_group(ret, ret->gid);
	if (!colon || !colon[1])
		group_gather(group, ret);
	return error;
}

static bool must_switch(const struct user *u)
{
	return u->uid != geteuid();
}

/*
 * The system calls, not libc's functions of these names: those make all threads of the process
 * follow, at three times the price. The runner has one thread, and a process that is about to
 * become a command uses its parent's memory (command/command.h).
 */
#ifdef SYS_setgroups32 /* where the plain ones know 16 bits only */
#define SYS_setgroups SYS_setgroups32
#define SYS_setresgid SYS_setresgid32
#define SYS_setresuid SYS_setresuid32
#endif

static int set_groups(size_t n, const gid_t *groups)
{
	return (int)syscall(SYS_setgroups, n, groups);
}

int user_fs_enter(const struct user *u)
{
	if (!must_switch(u))
		return 0;
	if (set_groups(u->n_groups, u->groups) < 0)
		return errno;
	setfsgid(u->gid);
	setfsuid(u->uid); /* also takes root's file capabilities out of effect */
	/* Neither call reports failure; asking for the impossible tells what is in force. */
	if ((uid_t)setfsuid((uid_t)-1) == u->uid && (gid_t)setfsgid((gid_t)-1) == u->gid)
		return 0;
	user_fs_leave(u);
	return EPERM;
}

void user_fs_leave(const struct user *u)
{
	int saved = errno;

	if (must_switch(u)) {
		setfsuid(geteuid());
		setfsgid(getegid());
		set_groups(0, NULL); /* root needs none */
	}
	errno = saved;
}

int user_become(const struct user *u)
{
	if (geteuid() != 0)
		return 0; /* user_find has seen to it that the user is the runner's own */
	if (set_groups(u->n_groups, u->groups) < 0 ||
		syscall(SYS_setresgid, u->gid, u->gid, u->gid) < 0 ||
		syscall(SYS_setresuid, u->uid, u->uid, u->uid) < 0)
		return errno;
	return 0;
}

int user_path(const struct user *u, const char *cwd, const char *path, char *out, size_t size)
{
	int n;

	if (!path[0])
		return ENOENT;
	if (path[0] == '/')
		n = snprintf(out, size, "%s", path);
	else if (cwd[0] == '/')
		n = snprintf(out, size, "%s/%s", cwd, path);
	else
		n = snprintf(out, size, "%s/%s%s%s", u->home, cwd, cwd[0] ? "/" : "", path);
	return n < 0 || (size_t)n >= size ? ENAMETOOLONG : 0;
}
