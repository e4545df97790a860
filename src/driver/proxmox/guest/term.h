/*
 * pve-term.h - a serial port of a VM as a stream of bytes: the server's terminal websocket, with
 * our bytes in armour (guest/armour.h), bridged to a socket by a thread of its own.
 */
#pragma once

#include "guest/pve-agent.h"

struct pve_term;

/*
 * Opens the terminal. *ret_fd: our end of the stream; the caller closes it. It is closed at the
 * other end when the terminal or the port's user breaks off.
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
	struct armour_reader *reader;
};
int term_encode(struct term_codec *c, struct bytes in, struct buf *ret, struct err *e);
int term_decode(struct term_codec *c, struct bytes text, struct buf *ret, struct err *e);
