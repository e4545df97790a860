/*
 * killtree.h - end every process below this one. The caller is single-threaded and a subreaper, so
 * that processes which left their session or lost their parent come back to it. Also built into the
 * guest runner.
 */
#pragma once

/* SIGKILLs and reaps until no child is left. */
void killtree_below_self(void);
