#include "runner/job.h"

#include <sys/mman.h>

struct job *job_map(size_t size)
{
	/* Pages come into being when they are first written to: most jobs need two or three. */
	struct job *job =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (job == MAP_FAILED)
		return NULL;
	job->size = size;
	return job;
}

void job_unmap(struct job *job)
{
	munmap(job, job->size);
}
