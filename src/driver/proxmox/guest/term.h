/*
 * term.h - a serial port of a VM as a stream of bytes. A thread of its own copies between a socket
 * and the server's terminal websocket, where our bytes are in ASCII framing (wire/ascii.h). Any
 * thread may open and close one.
 */
#pragma once

#include "driver/proxmox/guest/agent.h"

struct pve_term;

/*
 * Opens the terminal. *ret_fd: our end of the stream, which the caller closes. Its other end is
 * closed when the terminal or the program on the port ends.
 */
int pve_term_open(struct pve_agent *a, const struct op *op, const char *serial,
	struct pve_term **ret, int *ret_fd, struct err *e);
/* Ends the thread. NULL is fine. */
void pve_term_close(struct pve_term *t);

/* Pure: bytes of the stream as websocket frames, and text of the terminal as bytes of the stream.
 */
struct term_codec {
	uint16_t number; /* of the next line */
	uint32_t key;
	struct ascii_reader *reader;
};
int term_encode(struct term_codec *c, struct bytes in, struct buf *ret, struct err *e);
int term_decode(struct term_codec *c, struct bytes text, struct buf *ret, struct err *e);
