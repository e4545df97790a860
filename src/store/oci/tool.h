/* tool.h - runs skopeo and buildah, which speak with registries and build container images. Any
 * thread. */
#pragma once

#include "store/draft.h"
#include "store/ref.h"
#include "util/buf.h"
#include "util/strv.h"

/*
 * Writes WORK/registries.conf of the draft, which both programs are told to use instead of the
 * machine's: names without a registry are docker.io's, the mirror of the configuration takes the
 * place of docker.io, and registries of this machine may do without TLS. local: registries of this
 * machine, "HOST:PORT", NULL at the end.
 */
int oci_tool_prepare(const struct draft *d, char *const *local, struct err *e);
/* The environment for both. */
int oci_tool_env(const struct draft *d, struct strv *ret, struct err *e);
/* Begins a command line of skopeo: "skopeo VERB", with what all of them get. */
void oci_skopeo(const struct draft *d, struct strv *ret, const char *verb);

/* Runs a program to its end; out gets its stdout. */
int oci_tool_ask(const struct op *op, const struct draft *d, const struct strv *argv,
	struct buf *out, struct err *e);

/* Runs a program to its end. Meanwhile it tells how much of `total` is in the directories. */
struct oci_tool_watch {
	const char *dirs[2];
	uint64_t total;
	const char *text;
};
int oci_tool_watch(const struct op *op, const struct draft *d, const struct strv *argv,
	const struct oci_tool_watch *watch, struct err *e);

/* Pure: turns what a program said at last into an error, in words and of a kind for people. */
int oci_tool_fail(const char *program, const char *last, struct err *e);
