/* tsc.h - the frequency of the processor's time stamp counter, which guests see under emulation.
 * Any thread. */
#pragma once

/* In kHz. The first call measures it, which takes some milliseconds. 0: the counter is no reliable
 * clock. */
unsigned tsc_khz(void);
