/*
 * disc.h - a large request that comes on a disc: the host puts the disc into a drive of the guest,
 * and moat-guest copies the request into the spool, where `moat-guest once` reads it.
 */
#pragma once

/*
 * moat-guest take DISC ID OFFSET LENGTH SHA256
 *
 * DISC: the name of the disc (wire/iso.h), which is looked for in all drives. LENGTH bytes of its
 * file are written to ID.0 from OFFSET on, where that file ends then. May run twice.
 *
 * Exit status: 0 if the bytes are there and right, TAKE_NO_DISC, TAKE_FULL, or ONCE_BAD.
 */
int take_main(int argc, char **argv);
