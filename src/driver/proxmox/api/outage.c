#include "driver/proxmox/api/outage.h"

#include "util/thread/lock.h"

#define PAUSE_LEAST 0.1
#define PAUSE_MOST  1.0
/* Failures further apart than this belong to two outages. */
#define APART_SECONDS 30.0
/* A server that has never answered is not away: it may be a wrong name. */
#define UNSEEN_SECONDS 10.0
/* How long a daemon that ends waits for a server that is away. */
#define ENDING_SECONDS 3.0
/* How long an answer may take: the server's front end gives up on its back end after 30. */
#define SILENCE_SECONDS 150.0
/* The same when the daemon ends, for a server that answers other calls: one that waits for a lock
 * takes 10. Then for a server of which nothing has been heard since. */
#define ENDING_SILENCE 15.0
#define ENDING_UNHEARD 4.0
/* The front end could not reach the daemon behind it, so nothing was done. */
#define NO_BACK_END   595
#define BRIEF_SECONDS 2.0
enum { BRIEF_TRIES = 5 };

static double seconds_since(int64_t then)
{
	return (double)(now_ns() - then) / 1e9;
}

bool pve_outage_is(const struct err *e, bool twice)
{
	if (e->kind != ERR_UNAVAILABLE)
		return false;
	if (e->sys == PVE_NOT_SENT || e->sys == NO_BACK_END)
		return true;
	return twice && (e->sys == PVE_NO_ANSWER || (e->sys >= 502 && e->sys <= 504));
}

/* For how long calls wait for the server, with the lock held. */
static double patience(const struct pve_api *api)
{
	bool unseen = !api->heard_ns;

	return unseen && api->outage_s > UNSEEN_SECONDS ? UNSEEN_SECONDS : api->outage_s;
}

static bool heard_since_ending(const struct pve_api *api)
{
	return api->heard_ns > api->ending_ns;
}

/* How long a daemon that ends waits for the server, with the lock held. A server that answers is
 * slow, so its silence gives up a call and not the server. */
static double left_of_ending(struct pve_api *api, const struct err *why)
{
	bool heard = heard_since_ending(api);
	double left = ENDING_SECONDS - seconds_since(heard ? api->away_ns : api->ending_ns);

	api->given_up |= left <= 0 && (!heard || why->sys == PVE_NOT_SENT);
	return left;
}

/* Notes a failure; returns for how many more seconds this call may wait. */
static double note_failure(struct pve_api *api, struct outage_wait *w, const struct err *why)
{
	double left, of_call;
	auto_unlock struct lock *held = lock_take(&api->mu);

	if (!api->away_ns || seconds_since(api->failed_ns) > APART_SECONDS)
		api->away_ns = now_ns();
	api->failed_ns = now_ns();
	if (!w->since_ns)
		w->since_ns = api->failed_ns;
	left = patience(api) - seconds_since(api->away_ns);
	of_call = patience(api) - seconds_since(w->since_ns);
	if (!api->ending_ns)
		return left < of_call ? left : of_call;
	return left_of_ending(api, why);
}

bool pve_outage_wait(struct pve_api *api, const struct op *op, struct outage_wait *w, bool brief,
	const struct err *why)
{
	double pause = PAUSE_LEAST * (1 << (w->tries < 4 ? w->tries : 4)), left;
	struct err late;

	left = note_failure(api, w, why);
	w->tries++;
	/* Some tries are made even if the server has been away for too long: they show whether it
	 * is back. */
	if (left <= 0 || brief) {
		if (w->tries >= BRIEF_TRIES || seconds_since(w->began_ns) > BRIEF_SECONDS ||
			pve_outage_check(api, &late) < 0)
			return false;
	} else if (w->tries > 1 && !w->said) {
		op_progress(op, 0, 0, "waiting for the server: %.200s", why->msg);
		w->said = true;
	}
	return op_pause(op, pause < PAUSE_MOST ? pause : PAUSE_MOST, &late) == 0;
}

void pve_outage_over(struct pve_api *api, const struct op *op, struct outage_wait *w)
{
	{
		auto_unlock struct lock *held = lock_take(&api->mu);
		api->away_ns = 0;
		api->heard_ns = now_ns();
		api->given_up = false;
	}
	if (w->said)
		op_progress(op, 0, 0, "the server %s is back", api->host);
	*w = (struct outage_wait){.began_ns = now_ns()};
}

double pve_outage_silence(struct pve_api *api)
{
	auto_unlock struct lock *held = lock_take(&api->mu);

	if (!api->ending_ns)
		return SILENCE_SECONDS;
	return heard_since_ending(api) ? ENDING_SILENCE : ENDING_UNHEARD;
}

int pve_outage_check(struct pve_api *api, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&api->mu);

	if (!api->given_up)
		return 0;
	err_set(e, ERR_UNAVAILABLE, "%s is away, and the daemon ends", api->host);
	e->sys = PVE_NOT_SENT;
	return -1;
}

double pve_api_patience(struct pve_api *api)
{
	auto_unlock struct lock *held = lock_take(&api->mu);

	if (api->ending_ns)
		return 0;
	if (!api->away_ns || seconds_since(api->failed_ns) > APART_SECONDS)
		return patience(api);
	return patience(api) - seconds_since(api->away_ns);
}

void pve_api_hurry(struct pve_api *api)
{
	{
		auto_unlock struct lock *held = lock_take(&api->mu);
		if (!api->ending_ns)
			api->ending_ns = now_ns();
	}
	atomic_store(&api->hurried, true);
}
