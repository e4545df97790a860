#include "store/ref.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "util/str.h"

#define SCHEME "docker://"
enum { TAG_MAX = 128, DIGEST_LEN = 64 };

static bool is_small(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* A part of a path: small letters and digits, between them ".", "_", "__" or any number of "-". */
static bool is_part(const char *p, size_t n)
{
	if (n == 0 || !is_small(p[0]) || !is_small(p[n - 1]))
		return false;
	for (size_t i = 0, run = 0; i < n; i++) {
		run = is_small(p[i]) ? 0 : run + 1;
		if (run && !strchr("._-", p[i]))
			return false;
		if (run > 1 && p[i] != p[i - 1])
			return false;
		if ((run > 1 && p[i] == '.') || (run > 2 && p[i] == '_'))
			return false;
	}
	return true;
}

static bool is_path(const char *p, size_t n)
{
	for (;;) {
		const char *slash = memchr(p, '/', n);
		size_t part = slash ? (size_t)(slash - p) : n;

		if (!is_part(p, part))
			return false;
		if (!slash)
			return true;
		p += part + 1;
		n -= part + 1;
	}
}

/* HOST or HOST:PORT; an IPv6 address stands in brackets. */
static bool is_host(const char *p, size_t n)
{
	size_t host = 0, port;

	if (n && p[0] == '[') {
		for (host = 1; host < n && (isxdigit((unsigned char)p[host]) || p[host] == ':');)
			host++;
		if (host < 3 || host == n || p[host++] != ']')
			return false;
	} else {
		while (host < n && (isalnum((unsigned char)p[host]) || strchr(".-", p[host])))
			host++;
		if (host == 0 || !isalnum((unsigned char)p[0]) ||
			!isalnum((unsigned char)p[host - 1]))
			return false;
	}
	if (host == n)
		return true;
	port = n - host - 1;
	if (p[host] != ':' || port < 1 || port > 5)
		return false;
	for (size_t i = host + 1; i < n; i++)
		if (!isdigit((unsigned char)p[i]))
			return false;
	return true;
}

static bool is_tag(const char *p, size_t n)
{
	if (n == 0 || n > TAG_MAX || (!isalnum((unsigned char)p[0]) && p[0] != '_'))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)p[i]) && !strchr("._-", p[i]))
			return false;
	return true;
}

static bool is_digest(const char *p)
{
	static const char kind[] = "sha256:";

	return str_starts(p, kind) && strlen(p) == sizeof(kind) - 1 + DIGEST_LEN &&
	       strspn(p + sizeof(kind) - 1, "0123456789abcdef") == DIGEST_LEN;
}

static int fail(const char *text, const char *why, struct err *e)
{
	char shown[256];

	str_escape(text, strlen(text), shown, sizeof(shown));
	return err_set(e, ERR_INVALID, "\"%s\" names no container image: %s", shown, why);
}

/* Whether the part before the first slash is a registry. */
static bool looks_like_host(const char *p, size_t n)
{
	return memchr(p, '.', n) || memchr(p, ':', n) || (n == 9 && !memcmp(p, "localhost", n));
}

int oci_ref_read(const char *text, struct oci_ref *ret, struct err *e)
{
	const char *at = str_starts(text, SCHEME) ? text + strlen(SCHEME) : text;
	const char *host = "docker.io", *path = at, *tag = "latest", *library = "";
	size_t host_len = strlen(host), len = strcspn(at, "@"), tag_len = strlen(tag);
	const char *digest = at[len] ? at + len + 1 : NULL, *slash, *colon;
	struct oci_ref ref = {0};
	int n;

	if (strlen(at) > OCI_REF_MAX)
		return fail(text, "it is too long", e);
	if (digest && !is_digest(digest))
		return fail(text, "after \"@\" comes \"sha256:\" and 64 small hex digits", e);
	slash = memchr(at, '/', len);
	if (slash && looks_like_host(at, (size_t)(slash - at))) {
		host = at;
		host_len = (size_t)(slash - at);
		path = slash + 1;
	}
	if (!is_host(host, host_len))
		return fail(text, "its registry is no host", e);
	if (host_len == 15 && memcmp(host, "index.docker.io", host_len) == 0) {
		host = "docker.io";
		host_len = strlen(host);
	}
	len -= (size_t)(path - at);
	colon = memrchr(path, ':', len);
	if (colon) {
		tag = colon + 1;
		tag_len = len - (size_t)(tag - path);
		len = (size_t)(colon - path);
	}
	if (!is_tag(tag, tag_len))
		return fail(text, "its tag is not of letters, digits, \".\", \"_\" and \"-\"", e);
	if (!is_path(path, len))
		return fail(text, "a name has small letters, digits, \".\", \"_\" and \"-\"", e);
	if (host_len == 9 && memcmp(host, "docker.io", 9) == 0 && !memchr(path, '/', len))
		library = "library/";
	n = snprintf(ref.text, sizeof(ref.text), "%.*s/%s%.*s%c%.*s", (int)host_len, host, library,
		(int)len, path, digest ? '@' : ':', digest ? (int)strlen(digest) : (int)tag_len,
		digest ? digest : tag);
	if (n < 0 || (size_t)n >= sizeof(ref.text))
		return fail(text, "it is too long", e);
	ref.registry_len = host_len;
	ref.name_len = host_len + 1 + strlen(library) + len;
	ref.pinned = digest != NULL;
	*ret = ref;
	return 0;
}

const char *oci_ref_digest(const struct oci_ref *ref)
{
	return ref->text + strlen(ref->text) - DIGEST_LEN;
}

bool oci_ref_is_meant(const char *text)
{
	if (str_starts(text, SCHEME))
		return true;
	return !strstr(text, "://") && strpbrk(text, "/:@");
}

bool oci_ref_is_local(const struct oci_ref *ref)
{
	const char *host = ref->text;
	size_t n = 0;

	if (str_starts(host, "[::1]"))
		return true;
	n = strcspn(host, ":/");
	if (str_starts(host, "127.") && strspn(host, "0123456789.") == n) /* not 127.example.org */
		return true;
	return n == 9 && memcmp(host, "localhost", n) == 0;
}
