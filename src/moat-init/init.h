/* init.h - process 1: what it watches over. One thread. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "moat-init/record.h"
#include "moat-init/ring.h"

enum { CLIENTS_MAX = 16, PIECE = 16384 };

enum service_stage {
	SERVICE_NONE,  /* there is none yet */
	SERVICE_WAITS, /* for addresses */
	SERVICE_RUNS,
	SERVICE_PAUSES, /* it has ended, and will be started again */
	SERVICE_ENDED,
};

/* A process of ours that must always run. */
struct helper {
	pid_t pid;
	int64_t start_at; /* when to start it again; 0: it runs */
	int64_t pause;
	int64_t started;
};

struct supervised {
	struct service spec;
	char *record; /* what spec points into */
	enum service_stage stage;
	pid_t pid;
	int out[2];   /* a pipe: all that it writes */
	int64_t next; /* when to start it, or to go on without addresses */
	int64_t started, pause;
	unsigned starts;
	int code; /* of its last end: 128 and the signal where one ended it */
};

struct client {
	int fd; /* -1: free */
	enum { ASKING, READING_RECORD, AWAITING_START, AWAITING_END, SENDING_LOG, FOLLOWING } stage;
	char line[64];
	size_t line_len;
	char *record;
	size_t record_len, record_size;
	uint64_t at, until; /* in the log */
};

struct init {
	int signals, listener, addresses_fd, runner_fd;
	struct helper runner, dhcp;
	unsigned addresses;
	struct supervised service;
	struct ring log;
	struct client clients[CLIENTS_MAX];
	int stopping; /* what to reboot(2) with; 0: not stopping */
	int64_t kill_at;
	sigset_t old_mask; /* what processes start with */
};

int64_t init_now_ms(void);

/* service.c. All of these are fine whatever the stage is. */
int service_open(struct init *in); /* 0 or an errno */
/* Takes the record. NULL, or why it is refused. It starts at once, or when it has its addresses. */
const char *service_take(struct init *in, char *record, size_t len, char *why, size_t size);
void service_drain(struct init *in); /* what it has written goes into the log */
void service_ended(struct init *in, int status);
void service_timers(struct init *in, int64_t now);
int64_t service_next(const struct init *in); /* INT64_MAX: nothing is due */
void service_signal(struct init *in, int signal);
void service_kill_rest(void);

/* clients.c: who asks us, by a socket that only root may use. */
int clients_open(struct init *in);
void clients_accept(struct init *in);
void client_ready(struct init *in, struct client *c, short events);
short client_events(const struct init *in, const struct client *c);
/* The service was started, or has ended, or could not be started; why NULL: it was. */
void clients_started(struct init *in, const char *why);
void clients_ended(struct init *in);
