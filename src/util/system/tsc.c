#include "util/system/tsc.h"

#include <pthread.h>
#include <stdint.h>

#include "util/thread/op.h"

#if defined(__x86_64__)
#include <x86intrin.h>

enum { TRIES = 16, WINDOWS = 3, WINDOW_NS = 2 * 1000 * 1000 };

struct mark {
	uint64_t ticks, ns;
};

/* Reads both clocks at one moment: of several tries, the one that was interrupted least. */
static struct mark take_mark(void)
{
	uint64_t closest = UINT64_MAX;
	struct mark m = {0};

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = __rdtsc(), ns = (uint64_t)now_ns(), after = __rdtsc();

		if (after - before < closest) {
			closest = after - before;
			m = (struct mark){before + closest / 2, ns};
		}
	}
	return m;
}

static unsigned measure_window(void)
{
	struct mark a = take_mark(), b;

	do
		b = take_mark();
	while (b.ns - a.ns < WINDOW_NS);
	return (unsigned)((b.ticks - a.ticks) * 1000000 / (b.ns - a.ns));
}

/* If the windows disagree, the counter is no clock. */
static unsigned measure(void)
{
	unsigned khz = measure_window();

	for (int i = 1; i < WINDOWS; i++) {
		unsigned again = measure_window(), diff = again > khz ? again - khz : khz - again;

		if (diff > khz / 100)
			return 0;
	}
	return khz;
}
#else
static unsigned measure(void)
{
	return 0;
}
#endif

static unsigned measured;

static void measure_once(void)
{
	measured = measure();
}

unsigned tsc_khz(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, measure_once);
	return measured;
}
