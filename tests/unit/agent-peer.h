/* agent-peer.h - a guest agent, played by a thread of the test: a function answers the commands. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "guestlink/agent/qga.h"
#include "tap.h"
#include "peer.h"

/* Reads one command; false at the end of the connection. */
__attribute__((unused)) static bool agent_get(struct peer *p, json_t **ret)
{
	struct buf line = {0};
	bool whole = false;

	while (!whole) {
		uint8_t *room = buf_room(&line, 65536), *newline, *begin;
		ssize_t n = recv(p->theirs, room, 65536, MSG_PEEK);

		if (n <= 0)
			break;
		newline = memchr(room, '\n', (size_t)n);
		whole = newline != NULL;
		n = whole ? newline + 1 - room : n;
		if (!peer_get(p, room, (size_t)n))
			break;
		begin = memrchr(
			room, 0xff, (size_t)n); /* the client synchronises: drop what came before */
		buf_grew(&line, (size_t)n);
		if (begin)
			buf_drop(&line, (size_t)(begin + 1 - buf_data(&line)));
	}
	*ret = whole ? json_loadb((const char *)buf_data(&line), line.len, 0, NULL) : NULL;
	buf_free(&line);
	return *ret != NULL;
}

__attribute__((unused)) static bool agent_say(struct peer *p, const char *text)
{
	return peer_put(p, text, strlen(text));
}

__attribute__((unused)) static const char *agent_command(json_t *request)
{
	const char *name = json_string_value(json_object_get(request, "execute"));

	return name ? name : "";
}

__attribute__((unused)) static json_t *agent_arg(json_t *request, const char *name)
{
	return json_object_get(json_object_get(request, "arguments"), name);
}

__attribute__((unused)) static void agent_answer_sync(struct peer *p, json_t *request)
{
	char text[64];

	snprintf(text, sizeof(text), "\xff{\"return\": %lld}\n",
		(long long)json_integer_value(agent_arg(request, "id")));
	agent_say(p, text);
}

/* Answers guest-sync-delimited itself, and everything else by answer(). */
__attribute__((unused)) static void agent_serve(
	struct peer *p, void (*answer)(struct peer *, json_t *request, int number))
{
	json_t *request;

	for (int number = 0; agent_get(p, &request); json_decref(request)) {
		if (strcmp(agent_command(request), "guest-sync-delimited") == 0)
			agent_answer_sync(p, request);
		else
			answer(p, request, number++);
	}
}
