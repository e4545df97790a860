/* agent-peer.h - a guest agent played by a thread of the test: answers commands by a function. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "guest/qga.h"
#include "tap.h"
#include "peer.h"

/* One command, parsed; false at the end of the connection. */
__attribute__((unused)) static bool agent_get(struct peer *p, json_t **ret)
{
	size_t cap = 4096, n = 0;
	char *line = malloc(cap);
	char c;

	while (peer_get(p, &c, 1) && c != '\n') {
		if ((uint8_t)c == 0xff) { /* begins anew */
			n = 0;
			continue;
		}
		if (n == cap)
			line = realloc(line, cap *= 2);
		line[n++] = c;
	}
	*ret = json_loadb(line, n, 0, NULL);
	free(line);
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

/* Answers guest-sync-delimited itself, everything else by answer(). */
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
