/*
 * disc.h - a large request that comes on a disc: the host puts it into a drive of ours, and we copy
 * it into the spool, from where `moat-guest once` reads it.
 */
#pragma once

/*
 * moat-guest take DISC ID OFFSET LENGTH SHA256
 *
 * DISC: the name of the disc (util/iso.h), which is looked for in all drives. LENGTH bytes of its
 * file are written to ID.0 from OFFSET on, where the file then ends. May run twice.
 *
 * Exit status: 0 if it is there and right, TAKE_NO_DISC, or ONCE_BAD.
 */
int take_main(int argc, char **argv);
