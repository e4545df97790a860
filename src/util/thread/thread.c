#include "util/thread/thread.h"

#include "util/thread/lock.h"

enum { STACK = 256 * 1024 }; /* there may be thousands; what is large is on the heap */

int thread_start(
	pthread_t *ret, const char *name, void *(*run)(void *arg), void *arg, struct err *e)
{
	pthread_attr_t attr;
	pthread_t thread;
	int eno;

	pthread_attr_init(&attr);
	eno = pthread_attr_setstacksize(&attr, STACK);
	if (!eno)
		eno = pthread_create(&thread, &attr, run, arg);
	pthread_attr_destroy(&attr);
	if (eno)
		return err_sys(e, eno, "start a thread");
	if (name)
		pthread_setname_np(thread, name);
	*ret = thread;
	return 0;
}

void thread_join(pthread_t thread)
{
	lock_check_wait();
	pthread_join(thread, NULL);
}
