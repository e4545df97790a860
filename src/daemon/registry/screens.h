/*
 * screens.h - what is known of the screens of a sandbox's VMs besides what a driver knows: how many
 * look at them, what picture was handed out last, where the pointer is. Any thread.
 */
#pragma once

#include <jansson.h>

#include "screen/gestures.h"
#include "util/thread/lock.h"
#include "util/thread/turn.h"

enum { VIEWERS_MAX = 16 };

struct screen {
	struct turn turn; /* taking a picture, or typing */
	/* under the lock of its screens */
	struct canvas canvas; /* of the last picture that was handed out; 0: none was */
	struct pointer pointer;
	unsigned viewers, controllers; /* of the viewers, those who have keyboard and pointer */
};

struct screens {
	struct lock mu;
	struct screen *of_vm; /* NULL: nobody has asked for one */
	unsigned n;
};

void screens_init(struct screens *s);
void screens_done(struct screens *s);

/* The VM's, which lives as long as the sandbox. */
int screens_find(
	struct screens *s, unsigned n_vms, unsigned vm, struct screen **ret, struct err *e);
struct canvas screens_canvas(struct screens *s, const struct screen *screen);
void screens_set_canvas(struct screens *s, struct screen *screen, struct canvas canvas);
struct pointer screens_pointer(struct screens *s, const struct screen *screen);
void screens_set_pointer(struct screens *s, struct screen *screen, struct pointer pointer);
/* The VMs went back to a snapshot: their pointers are somewhere else. */
void screens_forget_pointers(struct screens *s);

/* Somebody begins, or ends, to look at a screen. ERR_BUSY: there are too many. */
int screens_enter(struct screens *s, struct screen *screen, bool control, struct err *e);
void screens_leave(struct screens *s, struct screen *screen, bool control);

/* The "screen" of a VM in the protocol; NULL: nobody looks at it. */
json_t *screens_to_json(struct screens *s, unsigned vm);
