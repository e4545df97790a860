/*
 * http.h - the little HTTP that the API needs: heads of requests are put together by hand, answers
 * are read by this parser. Pure and bounded: the bytes come from the network.
 *
 * Why not leave it to libcurl: it sends a request again by itself when a kept connection turns out
 * to be dead, which may run a command twice; and it closes connections that the server keeps open
 * (a proxied answer says both "close" and "keep-alive").
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/buf.h"

enum { HTTP_HEAD_MAX = 64 * 1024, HTTP_REASON_MAX = 256 };
#define HTTP_BODY_MAX ((size_t)96 * 1024 * 1024)

struct http_answer {
	int status;
	char reason[HTTP_REASON_MAX]; /* escaped */
	bool keep;                    /* the connection may be used again */
	bool has_length, chunked;
	uint64_t length;
	size_t head_len;
	bool has_head; /* for http_take: the final head has been taken */
	/* The progress of http_body. */
	size_t at;
	bool complete;
	struct buf body;
};

void http_answer_free(struct http_answer *a);
#define auto_http_answer __attribute__((cleanup(http_answer_free)))

/* 1: the head is complete and parsed (a->head_len bytes of in); 0: more is needed; -1: rubbish. */
int http_head(struct bytes in, struct http_answer *a, struct err *e);
/*
 * Takes bytes that follow the head into a->body. Returns how many it used, -1 for rubbish or too
 * much; sets a->complete. Call it again with the unused bytes and more. Without a length, the body
 * ends with the connection: http_body_end.
 */
ssize_t http_body(struct bytes in, struct http_answer *a, struct err *e);
/* Takes from `in` what there is of an answer; its heads before the final one, such as "100
 * Continue", are left out. 1: the answer is complete; 0: more is needed; -1: as above. */
int http_take(struct buf *in, struct http_answer *a, struct err *e);
/* The connection has ended. Fails if more should have come. */
int http_body_end(struct http_answer *a, struct err *e);
