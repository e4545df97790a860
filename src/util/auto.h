/* auto.h - cleanup by scope: auto_* variables release what they hold, take_* hands it on. Inline
 * only; pure. */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Defines the function that a cleanup attribute calls: release(*p), where release takes NULL. */
#define DEFINE_AUTO(name, type, release)                                                           \
	static inline void name(type **p)                                                          \
	{                                                                                          \
		release(*p);                                                                       \
	}

static inline void auto_freep(void *p)
{
	free(*(void **)p);
}

static inline void auto_closep(int *fd)
{
	if (*fd >= 0)
		close(*fd); /* never retried: on Linux the fd is gone even after EINTR */
}

static inline void auto_fclosep(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void auto_closedirp(DIR **d)
{
	if (*d)
		closedir(*d);
}

#define auto_free __attribute__((cleanup(auto_freep)))
#define auto_fd   __attribute__((cleanup(auto_closep)))
#define auto_file __attribute__((cleanup(auto_fclosep)))
#define auto_dir  __attribute__((cleanup(auto_closedirp)))

static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

#define take_ptr(p)                                                                                \
	({                                                                                         \
		__typeof__(*(p)) taken_ = *(p);                                                    \
		*(p) = NULL;                                                                       \
		taken_;                                                                            \
	})

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
