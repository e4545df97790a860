#include "cli/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/terminal/screen.h"

mode_t current_umask(void)
{
	mode_t mask = umask(077);

	umask(mask);
	return mask;
}

static int check_plain(const struct outfile *f, struct err *e)
{
	struct stat st;

	if (fstat(f->fd, &st) < 0)
		return err_sys(e, errno, "%s", f->name);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "%s is here already and is not a file", f->name);
	return 0;
}

int outfile_open(struct outfile *f, struct err *e)
{
	/* No O_TRUNC: first see what kind of file it is. O_NONBLOCK: it may be a FIFO. */
	int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | (f->trusted ? 0 : O_NOFOLLOW | O_NONBLOCK);

	f->fd = openat(f->dir_fd, f->name, flags | O_CREAT | O_EXCL, 0600);
	f->created = f->fd >= 0;
	if (f->fd < 0 && errno == EEXIST)
		f->fd = openat(f->dir_fd, f->name, flags);
	if (f->fd < 0 && errno == ELOOP)
		return err_set(e, ERR_INVALID, "%s is a link here: not followed", f->name);
	if (f->fd < 0)
		return err_sys(e, errno, "%s", f->name);
	if (!f->trusted && check_plain(f, e) < 0)
		return -1;
	if (ftruncate(f->fd, 0) < 0 && errno != EINVAL) /* EINVAL: it is a device or a pipe */
		return err_sys(e, errno, "%s", f->name);
	return 0;
}

int outfile_write(struct outfile *f, struct bytes data, struct err *e)
{
	if (write_out(f->fd, data, e) < 0)
		return err_wrap(e, "%s", f->name);
	return 0;
}

int outfile_finish(struct outfile *f, mode_t mode, struct err *e)
{
	if (f->created && fchmod(f->fd, mode & 0777 & ~current_umask()) < 0)
		return err_sys(e, errno, "%s", f->name);
	/* Network file systems and quotas report failed writes only here. */
	if (close(f->fd) < 0) {
		err_sys(e, errno, "%s", f->name);
		f->fd = -1;
		if (f->created)
			unlinkat(f->dir_fd, f->name, 0);
		return -1;
	}
	f->fd = -1;
	return 0;
}

void outfile_abort(struct outfile *f)
{
	if (f->fd < 0)
		return;
	close(f->fd);
	f->fd = -1;
	if (f->created)
		unlinkat(f->dir_fd, f->name, 0);
}
