/* The frequency of the time stamp counter, against a longer measurement. */
#include "util/system/tsc.h"

#include <time.h>
#include <x86intrin.h>

#include "tap.h"
#include "util/thread/op.h"

int main(void)
{
	/* Reads one clock before and after the other: we may be interrupted between them. */
	uint64_t early = __rdtsc(), ns = (uint64_t)now_ns(), late = __rdtsc(), least, most;
	unsigned khz = tsc_khz();

	nanosleep(&(struct timespec){.tv_nsec = 200 * 1000 * 1000}, NULL);
	least = __rdtsc() - late;
	ns = (uint64_t)now_ns() - ns;
	most = __rdtsc() - early;
	OK(khz > least * 990000 / ns && khz < most * 1010000 / ns);
	OK(tsc_khz() == khz);
	return tap_done();
}
