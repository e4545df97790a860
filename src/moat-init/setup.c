/* setup.c - what a service finds besides its own program: names, mounts, directories, settings. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "moat-init/common/files.h"
#include "moat-init/ctl.h"
#include "moat-init/record.h"
#include "util/auto.h"
#include "wire/service.h"

static int fail(const char *what, int error)
{
	fprintf(stderr, "%s: %s\n", what, strerror(error));
	return 1;
}

/* An image may have a link in the place of such a file. */
static int put_file(const char *path, const char *text)
{
	auto_file FILE *f = NULL;

	unlink(path);
	f = fopen(path, "we");
	if (!f || fputs(text, f) == EOF || fflush(f) == EOF)
		return fail(path, errno);
	fchmod(fileno(f), 0644);
	return 0;
}

static int set_hostname(const char *name)
{
	char line[300];

	if (sethostname(name, strlen(name)) < 0)
		return fail("its host name", errno);
	snprintf(line, sizeof(line), "%s\n", name);
	return put_file("/etc/hostname", line);
}

/* The names that every system has, and those of the record. Its own name is that of this machine
 * alone: other VMs ask for it by DNS. */
static int write_hosts(struct record record)
{
	auto_free char *text = NULL;
	char name[256] = "";
	const char *key, *value;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return fail("/etc/hosts", errno);
	gethostname(name, sizeof(name) - 1);
	fputs("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n", f);
	if (name[0])
		fprintf(f, "127.0.1.1\t%s\n", name);
	while (record_next(&record, &key, &value))
		if (strcmp(key, SERVICE_HOST) == 0)
			fprintf(f, "%s\n", value);
	return fclose(f) == EOF ? fail("/etc/hosts", ENOMEM) : put_file("/etc/hosts", text);
}

static int resize_shm(const char *mb)
{
	char options[64];

	snprintf(options, sizeof(options), "mode=1777,size=%.10sm", mb);
	if (mount("tmpfs", "/dev/shm", "tmpfs", MS_REMOUNT | MS_NOSUID | MS_NODEV, options) < 0)
		return fail("/dev/shm", errno);
	return 0;
}

static int mount_tmpfs(const char *value)
{
	char options[128];
	size_t len = strcspn(value, " ");
	const char *path = value + len + (value[len] == ' ');
	int error;

	if (len >= sizeof(options) || *path != '/')
		return fail(value, EINVAL);
	memcpy(options, value, len);
	options[len] = 0;
	error = make_dirs(path);
	if (!error && mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV,
			      strcmp(options, "-") == 0 ? NULL : options) < 0)
		error = errno;
	return error ? fail(path, error) : 0;
}

static int make_read_only(const char *path)
{
	if (mount(path, path, NULL, MS_BIND | MS_REC, NULL) < 0 ||
		mount(NULL, path, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) < 0)
		return fail(path, errno);
	return 0;
}

/* net.ipv4.ip_forward=1; a name may have "/" for ".", as sysctl(8) takes it. */
static int set_sysctl(const char *value)
{
	char path[512];
	size_t name = strcspn(value, "=");
	int error;

	if (!value[name] || name > sizeof(path) - 32 || strstr(value, ".."))
		return fail(value, EINVAL);
	snprintf(path, sizeof(path), "/proc/sys/%.*s", (int)name, value);
	for (char *c = path + strlen("/proc/sys/"); *c; c++)
		if (*c == '.')
			*c = '/';
	error = put_text(path, value + name + 1);
	return error ? fail(value, error) : 0;
}

static int set_one(const char *key, const char *value)
{
	int error;

	if (strcmp(key, SERVICE_SHM_MB) == 0)
		return resize_shm(value);
	if (strcmp(key, SERVICE_READ_ONLY) == 0)
		return make_read_only(value);
	if (strcmp(key, SERVICE_SYSCTL) == 0)
		return set_sysctl(value);
	if (strcmp(key, SERVICE_VOLUME) != 0)
		return 0;
	error = make_dirs(value);
	return error ? fail(value, error) : 0;
}

int set_up_mounts(struct record record)
{
	const char *key, *value;

	while (record_next(&record, &key, &value))
		if (strcmp(key, SERVICE_TMPFS) == 0 && mount_tmpfs(value) != 0)
			return 1;
	return 0;
}

int set_up(struct record record)
{
	const char *key, *value;

	for (struct record r = record; record_next(&r, &key, &value);)
		if (strcmp(key, SERVICE_HOSTNAME) == 0 && set_hostname(value) != 0)
			return 1;
	if (write_hosts(record) != 0)
		return 1;
	while (record_next(&record, &key, &value))
		if (set_one(key, value) != 0)
			return 1;
	return 0;
}
