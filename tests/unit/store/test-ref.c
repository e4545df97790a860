/* The names of container images: what is completed, what is refused, what is meant. */
#include "store/ref.h"
#include "tap.h"

static const char *whole(const char *text)
{
	static struct oci_ref ref;
	struct err e;

	return oci_ref_read(text, &ref, &e) < 0 ? NULL : ref.text;
}

#define D64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_completed(void)
{
	STR_IS(whole("debian"), "docker.io/library/debian:latest");
	STR_IS(whole("debian:12"), "docker.io/library/debian:12");
	STR_IS(whole("docker://debian:12"), "docker.io/library/debian:12");
	STR_IS(whole("kim/lab"), "docker.io/kim/lab:latest");
	STR_IS(whole("index.docker.io/debian"), "docker.io/library/debian:latest");
	STR_IS(whole("ghcr.io/a/b:1"), "ghcr.io/a/b:1");
	STR_IS(whole("localhost/a"), "localhost/a:latest");
	STR_IS(whole("127.0.0.1:5000/a"), "127.0.0.1:5000/a:latest");
	STR_IS(whole("[::1]:5000/a:b"), "[::1]:5000/a:b");
	STR_IS(whole("lab:5000/a__b/c--d.e:T_1"), "lab:5000/a__b/c--d.e:T_1");
	STR_IS(whole("debian@sha256:" D64), "docker.io/library/debian@sha256:" D64);
	STR_IS(whole("debian:12@sha256:" D64), "docker.io/library/debian@sha256:" D64);
}

static void test_refused(void)
{
	static const char *const wrong[] = {"", ":", "a:", "/a", "a/", "a//b", "A", "a/B", "-a",
		"a-", "a..b", "a___b", "a:b/c d", "a b", "a@", "a@sha256:12", ("a@md5:" D64),
		"a:b:c", "a.b:99999999/c", "a.b:/c", "../a", "a/../b", "https://a/b", "[::1/a",
		"a\n", "a%b/c", "docker://"};
	char longest[OCI_REF_MAX + 20];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		tap_ok(!whole(wrong[i]), "refused: %s", wrong[i]);
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	tap_ok(!whole(longest), "refused: too long");
	longest[OCI_REF_MAX - (int)strlen("docker.io/library/:latest")] = 0;
	tap_ok(whole(longest) && strlen(whole(longest)) == OCI_REF_MAX, "the longest");
}

static void test_meant(void)
{
	static const char *const yes[] = {
		"docker://debian", "debian:12", "a/b", ("a@sha256:" D64), "ghcr.io/a"};
	static const char *const no[] = {"debian12", "ubuntu24.04", "https://a/b.qcow2", "tiny"};
	struct oci_ref ref;
	struct err e;

	for (size_t i = 0; i < sizeof(yes) / sizeof(*yes); i++)
		tap_ok(oci_ref_is_meant(yes[i]), "a container image: %s", yes[i]);
	for (size_t i = 0; i < sizeof(no) / sizeof(*no); i++)
		tap_ok(!oci_ref_is_meant(no[i]), "none: %s", no[i]);
	tap_ok(oci_ref_read("localhost:1/a", &ref, &e) == 0 && oci_ref_is_local(&ref), "local");
	tap_ok(oci_ref_read("127.0.0.2:5000/a", &ref, &e) == 0 && oci_ref_is_local(&ref), "local");
	tap_ok(oci_ref_read("127.example.org:5000/a", &ref, &e) == 0 && !oci_ref_is_local(&ref),
		"not local: a name that begins as an address");
	tap_ok(oci_ref_read("localhost.example.org/a", &ref, &e) == 0 && !oci_ref_is_local(&ref),
		"not local");
	tap_ok(oci_ref_read("a@sha256:" D64, &ref, &e) == 0 && ref.pinned, "pinned");
	STR_IS(oci_ref_digest(&ref), D64);
}

int main(void)
{
	test_completed();
	test_refused();
	test_meant();
	return tap_done();
}
