/* ctl.h - what the host runs in the guest, by way of the runner: a client of process 1. */
#pragma once

#define CTL_SOCKET "org.moat.init" /* abstract: it needs no directory */

/* mounts, unpack, start, status, wait, log, follow. */
int ctl_main(int argc, char **argv);

/* Unpacks a cpio archive from stdin into the root. 0, or 1 after it has said why. */
int unpack(void);
/* Does what a record asks for besides its service, as root: directories, names, settings, and
 * before files are unpacked, its file systems in memory, which some of them may be for. 0, or 1
 * after it has said why. */
struct record;
int set_up(struct record record);
int set_up_mounts(struct record record);
