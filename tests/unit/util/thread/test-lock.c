/* Built with a lock.c that checks, whatever the build is. */
#include "util/thread/lock.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"
#include "util/thread/op.h"
#include "util/thread/thread.h"
#include "util/thread/turn.h"

static struct lock outer = LOCK_INIT("outer", LOCK_OUTER), outer2 = LOCK_INIT("outer2", LOCK_OUTER);
static struct lock leaf = LOCK_INIT("leaf", LOCK_LEAF), leaf2 = LOCK_INIT("leaf2", LOCK_LEAF);

/* Whether a process that does it is killed by SIGABRT after saying what. */
static bool dies(void (*act)(void), const char *what)
{
	char said[512];
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe(fds) < 0 || (pid = fork()) < 0)
		return false;
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){0});
		signal(SIGABRT, SIG_DFL); /* a sanitizer would speak, too */
		dup2(fds[1], STDERR_FILENO);
		act();
		_exit(0);
	}
	close(fds[1]);
	n = read(fds[0], said, sizeof(said) - 1);
	said[n > 0 ? n : 0] = '\0';
	close(fds[0]);
	if (waitpid(pid, &status, 0) != pid)
		return false;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strcmp(said, what) == 0)
		return true;
	printf("# status %x, said: %s\n", (unsigned)status, said);
	return false;
}

static void leaf_below_leaf(void)
{
	lock_take(&leaf);
	lock_take(&leaf2);
}

static void outer_below_leaf(void)
{
	lock_take(&outer);
	lock_take(&leaf);
	lock_give(&outer);
	lock_take(&outer);
}

static void outer_below_outer(void)
{
	lock_take(&outer);
	lock_take(&outer2);
}

static void twice(void)
{
	lock_take(&leaf);
	lock_take(&leaf);
}

static void not_held(void)
{
	lock_take(&leaf);
	lock_give(&leaf2);
}

static void wait_under_lock(void)
{
	struct op op = op_for_cleanup(0);
	struct err e;

	lock_take(&leaf);
	op_wait_fd(&op, STDIN_FILENO, POLLIN, &e);
}

static void pause_under_lock(void)
{
	struct op op = op_for_cleanup(0);
	struct err e;

	lock_take(&outer);
	op_pause(&op, 0.001, &e);
}

/* Nobody has the turn, so that nothing would be waited for; another time somebody might. */
static void turn_under_lock(void)
{
	struct op op = op_for_cleanup(0);
	struct turn turn;
	struct err e;

	turn_init(&turn);
	lock_take(&outer);
	(void)!turn_take(&turn, &op, &e);
}

static void *nothing(void *arg)
{
	return arg;
}

static void join_under_lock(void)
{
	pthread_t thread;
	struct err e;

	if (thread_start(&thread, "test", nothing, NULL, &e) < 0)
		return;
	lock_take(&leaf);
	thread_join(thread);
}

static void *take_leaf(void *arg)
{
	auto_unlock struct lock *held = lock_take(&leaf2);

	return arg;
}

/* All that is allowed, on one thread and beside another one. */
static bool allowed(void)
{
	struct op op = op_for_cleanup(0);
	pthread_t thread;
	struct err e;

	{
		auto_unlock struct lock *out = lock_take(&outer);
		auto_unlock struct lock *in = lock_take(&leaf);
	}
	{
		auto_unlock struct lock *held = lock_take(&leaf);
	}
	{
		auto_unlock struct lock *held = lock_take(&outer2);
	}
	lock_take(&outer);
	lock_take(&leaf);
	lock_give(&outer); /* in any order */
	if (thread_start(&thread, "test", take_leaf, &leaf2, &e) < 0)
		return false;
	lock_give(&leaf);
	thread_join(thread);
	return op_pause(&op, 0.001, &e) == 0;
}

int main(void)
{
	OK(allowed());
	OK(dies(leaf_below_leaf, "lock leaf2 must not be taken while leaf is held\n"));
	OK(dies(outer_below_leaf, "lock outer must not be taken while leaf is held\n"));
	OK(dies(outer_below_outer, "lock outer2 must not be taken while outer is held\n"));
	OK(dies(twice, "lock leaf must not be taken while leaf is held\n"));
	OK(dies(not_held, "lock leaf2 is given back by a thread that does not hold it\n"));
	OK(dies(wait_under_lock, "nothing must be waited for while lock leaf is held\n"));
	OK(dies(pause_under_lock, "nothing must be waited for while lock outer is held\n"));
	OK(dies(turn_under_lock, "nothing must be waited for while lock outer is held\n"));
	OK(dies(join_under_lock, "nothing must be waited for while lock leaf is held\n"));
	return tap_done();
}
