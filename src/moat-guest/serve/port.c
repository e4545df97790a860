/* port.c - finds and opens the port that the line runs over. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "moat-guest/common/uplink.h"
#include "util/auto.h"

#define PORTS "/sys/class/virtio-ports"

enum { PORT_TRIES = 100, PORT_PAUSE_MS = 50 };

static bool port_is_named(const char *port, const char *name)
{
	char path[300], line[128] = "";
	auto_file FILE *f = NULL;

	snprintf(path, sizeof(path), PORTS "/%s/name", port);
	f = fopen(path, "re");
	if (!f || !fgets(line, sizeof(line), f))
		return false;
	line[strcspn(line, "\n")] = 0;
	return strcmp(line, name) == 0;
}

static bool find_port(const char *name, char *out, size_t size)
{
	auto_dir DIR *dir = opendir(PORTS);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && port_is_named(entry->d_name, name))
			return snprintf(out, size, "/dev/%s", entry->d_name) < (int)size;
	return false;
}

static int open_device(const char *path)
{
	return open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* The port appears once its driver is loaded, its device node a moment later. */
static int open_named(const char *name)
{
	char path[300];
	int fd;

	for (int tries = 0; tries < PORT_TRIES; tries++) {
		errno = ENOENT;
		fd = find_port(name, path, sizeof(path)) ? open_device(path) : -1;
		if (fd >= 0 || errno != ENOENT)
			return fd;
		poll(NULL, 0, PORT_PAUSE_MS);
	}
	errno = ENOENT;
	return -1;
}

static int open_stdio(struct uplink *l)
{
	/* Away from 0 and 1, which commands and stray output must never reach. */
	l->in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	l->out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (l->in < 0 || l->out < 0 || fcntl(l->in, F_SETFL, O_NONBLOCK) < 0 ||
		fcntl(l->out, F_SETFL, O_NONBLOCK) < 0)
		return errno;
	return 0;
}

int uplink_open(struct uplink *l, const char *where)
{
	*l = (struct uplink){.in = -1, .out = -1};
	if (strcmp(where, "-") == 0)
		return open_stdio(l);
	l->is_port = true;
	l->in = strchr(where, '/') ? open_device(where) : open_named(where);
	if (l->in < 0)
		return errno;
	if (flock(l->in, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return EBUSY; /* two may open a terminal, unlike a virtio port */
	uplink_make_raw(l->in);
	l->out = fcntl(l->in, F_DUPFD_CLOEXEC, 3); /* so that each direction is watched by itself */
	return l->out < 0 ? errno : 0;
}
