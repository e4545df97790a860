/* proto.h - the client protocol's numbers; docs/protocol.md is the text. The Python client mirrors
 * these. */
#pragma once

#define PROTO_VERSION 1 /* bump when a client of the old one would misunderstand us */

enum {
	PROTO_JSON_MAX = 4 * 1024 * 1024,
	PROTO_BLOB_MAX = 1024 * 1024,
	PROTO_WINDOW = 1024 * 1024, /* input bytes per request that may be on their way */
	PROTO_REQUESTS_MAX = 256,   /* open requests per connection */
	PROTO_CONNECTIONS_MAX = 128,
	PROTO_PIECE = 256 * 1024, /* what we put into one data frame */
};
