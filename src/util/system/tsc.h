/* tsc.h - the frequency of the processor's time stamp counter, which guests see under emulation. */
#pragma once

/* In kHz, measured once: the first call takes some milliseconds. 0: nothing that one could trust.
 */
unsigned tsc_khz(void);
