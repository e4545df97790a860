#include "runner/job.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in linux/futex.h, which the static build does not see. */
enum { FUTEX_WAIT, FUTEX_WAKE };

struct job *job_map(size_t size)
{
	/* Pages come into being when they are first written to: most jobs need two or three. */
	struct job *job =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (job == MAP_FAILED)
		return NULL;
	job->size = size;
	job->state.place = JOB_NOBODY;
	return job;
}

/* Only from JOB_WAIT, so that of runner and supervisor one sees the other. */
static bool change(struct job *job, unsigned place, enum job_go to)
{
	uint32_t waiting = JOB_WAIT;

	return __atomic_compare_exchange_n(&job->state.go[place], &waiting, (uint32_t)to, false,
		__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

bool job_go(struct job *job, unsigned place, enum job_go go)
{
	if (!change(job, place, go))
		return false;
	syscall(SYS_futex, &job->state.go[place], FUTEX_WAKE, 1, NULL, NULL, 0);
	return true;
}

bool job_vacate(struct job *job, unsigned place)
{
	return change(job, place, JOB_VACANT);
}

enum job_go job_wait(struct job *job, unsigned place)
{
	volatile uint32_t *word = &job->state.go[place];
	uint32_t go;

	while ((go = __atomic_load_n(word, __ATOMIC_SEQ_CST)) == JOB_WAIT)
		syscall(SYS_futex, word, FUTEX_WAIT, JOB_WAIT, NULL, NULL, 0);
	return go;
}

void job_unmap(struct job *job)
{
	munmap(job, job->size);
}
