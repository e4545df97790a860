/* The pure parts of the store: digests, output of recipes, manifests, probing, OVF files. */
#include <stdio.h>

#include "store/manifest.h"
#include "store/import/ovf.h"
#include "store/import/probe.h"
#include "store/import/qemu-img.h"
#include "wire/sha256.h"
#include "store/tool-output.h"
#include "tap.h"
#include "util/json.h"

static struct bytes text(const char *s)
{
	return (struct bytes){(const uint8_t *)s, strlen(s)};
}

static const char *digest_of(const char *s, size_t piece)
{
	static char hex[SHA256_HEX + 1];
	size_t n = strlen(s);
	struct sha256 h;

	sha256_start(&h);
	for (size_t i = 0; i < n; i += piece)
		sha256_add(&h, s + i, n - i < piece ? n - i : piece);
	sha256_end(&h, hex);
	return hex;
}

static void test_sha256(void)
{
	static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
	static char many[1000001];

	STR_IS(digest_of("", 1),
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	STR_IS(digest_of("abc", 64),
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	STR_IS(digest_of(two_blocks, 1),
		"248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	memset(many, 'a', sizeof(many) - 1);
	STR_IS(digest_of(many, 977),
		"cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	/* Lengths around the padding's edge, in one piece and in bytes. */
	for (size_t n = 50; n < 70; n++) {
		char s[71] = {0}, whole[SHA256_HEX + 1];

		memset(s, 'x', n);
		memcpy(whole, digest_of(s, n), sizeof(whole));
		if (strcmp(whole, digest_of(s, 1)) != 0)
			tap_ok(0, "%zu bytes", n);
	}
}

struct heard {
	int n;
	char all[4096];
};

static void hear(void *arg, const char *line)
{
	struct heard *h = arg;

	h->n++;
	strncat(h->all, line, sizeof(h->all) - strlen(h->all) - 2);
	strcat(h->all, "|");
}

static void test_words(void)
{
	struct tool_output w = {0};
	struct heard h = {0};
	char junk[1000];

	tool_output_add(&w, "one\ntwo\r\n\n  \nthr", 16, hear, &h);
	tool_output_add(&w, "ee\n", 3, hear, &h);
	STR_IS(h.all, "one|two|three|");
	STR_IS(tool_output_end(&w, hear, &h), "three");
	OK(h.n == 3);
	tool_output_add(&w, "unfinished", 10, hear, &h);
	STR_IS(tool_output_end(&w, hear, &h), "unfinished");
	memset(junk, 'j', sizeof(junk));
	for (int i = 0; i < 1000; i++)
		tool_output_add(&w, junk, sizeof(junk), hear, &h);
	OK(strlen(tool_output_end(&w, NULL, NULL)) == TOOL_OUTPUT_LINE_MAX);
	tool_output_add(&w, "a\0b\n", 4, NULL, NULL);
	STR_IS(w.last, "a?b");
}

static void test_progress_lines(void)
{
	static const char *const bad[] = {"", "progress", "progress ", "progress x 5 t",
		"progress 1", "progress -1 5 t", "progress 1 5t", "Progress 1 5 t",
		"progress 99999999999999999999 5 t", " progress 1 5 t", "progress  1 5 t"};
	uint64_t done = 7, total = 7;
	const char *said = NULL;
	unsigned hundredths = 7;

	OK(tool_output_progress("progress 3 5 making the system", &done, &total, &said));
	OK(done == 3 && total == 5);
	STR_IS(said, "making the system");
	OK(tool_output_progress("progress 9 5", &done, &total, &said) && done == 5);
	STR_IS(said, "");
	OK(tool_output_progress("progress 9 0 x", &done, &total, &said) && done == 9 && total == 0);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		tap_ok(!tool_output_progress(bad[i], &done, &total, &said), "refused: %s", bad[i]);
	OK(tool_output_percent("    (12.34/100%)", &hundredths) && hundredths == 1234);
	OK(tool_output_percent("(100.00/100%)", &hundredths) && hundredths == 10000);
	OK(!tool_output_percent("(1000.00/100%)", &hundredths));
	OK(!tool_output_percent("(101.00/100%)", &hundredths));
	OK(!tool_output_percent("(1.00/100", &hundredths));
	OK(!tool_output_percent("Image resized.", &hundredths));
}

/* Parses a manifest; returns 0 or the kind of the error. */
static enum err_kind manifest_of(const char *s, json_t **ret)
{
	struct err e;
	json_t *m = NULL;

	if (manifest_parse(text(s), &m, &e) < 0)
		return e.kind;
	if (ret)
		*ret = m;
	else
		json_decref(m);
	return ERR_NONE;
}

static void test_manifest(void)
{
	static const char *const bad[] = {"", "[]", "{}",
		"{\"format\":2,\"arch\":\"x\",\"kernel\":\"k\"}", "{\"format\":1,\"arch\":\"x\"}",
		"{\"format\":1,\"kernel\":\"k\"}",
		"{\"format\":1,\"arch\":\"x\",\"kernel\":\"../k\"}",
		"{\"format\":1,\"arch\":\"x\",\"kernel\":\"/etc/shadow\"}",
		"{\"format\":1,\"arch\":\"x\",\"kernel\":\"lock\"}",
		"{\"format\":1,\"arch\":\"x\",\"kernel\":\"manifest.json\"}",
		"{\"format\":1,\"arch\":\"x\",\"kernel\":\"\"}",
		"{\"format\":1,\"arch\":\"x\",\"kernel\":5}",
		"{\"format\":1,\"arch\":\"x\",\"initrd\":\"i\"}",
		"{\"format\":1,\"arch\":\"x\",\"disk\":\"d\"}",
		"{\"format\":1,\"arch\":\"x\",\"disk\":\"d\",\"disk_format\":\"vmdk\"}",
		"{\"format\":1,\"arch\":\"x\",\"kernel\":\"k\",\"disk_format\":\"raw\"}",
		"{\"format\":1,\"arch\":\"x\",\"kernel\":\"k\",\"firmware\":\"coreboot\"}",
		"{\"format\":1,\"arch\":\"x\",\"kernel\":\"k\",\"user\":\"a:b\"}",
		"{\"format\":1,\"arch\":\"x\",\"kernel\":\"k\",\"hostname\":\"a b\"}",
		"{\"format\":1,\"arch\":\"x\",\"kernel\":\"k\",\"hostname\":\"a.b\"}",
		"{\"format\":1,\"arch\":\"x\",\"kernel\":\"k\",\"cloud_init\":\"yes\"}",
		"{\"format\":1,\"arch\":\"x\",\"kernel\":\"k\",\"min_ram_mb\":-1}",
		"{\"format\":1,\"arch\":\"x\",\"kernel\":\"k\",\"min_ram_mb\":99999999}",
		"{\"format\":1,\"arch\":\"x\",\"kernel\":\"k\",\"cmdline\":\"a\\nb\"}",
		"{\"format\":1,\"arch\":\"x\",\"kernel\":\"k\",\"digest\":\"zz\"}"};
	json_t *a = NULL, *b = NULL;
	char da[SHA256_HEX + 1], db[SHA256_HEX + 1];
	const char *files[MANIFEST_FILES_MAX];
	struct image *img = NULL;
	struct err e;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		tap_ok(manifest_of(bad[i], NULL) == ERR_INVALID, "refused: %s", bad[i]);
	OK(manifest_of("{\"format\":1,\"name\":\"x\",\"arch\":\"x86_64\",\"kernel\":\"vmlinux\","
		       "\"initrd\":null,\"root\":null,\"disk\":null,\"future\":[1],\"hostname\":"
		       "\"pve-1\"}",
		   &a) == ERR_NONE);
	OK(manifest_of("{\"kernel\":\"vmlinux\",\"created\":5,\"os_type\":\"l26\",\"name\":\"y\","
		       "\"hostname\":\"pve-1\",\"arch\":\"x86_64\",\"format\":1}",
		   &b) == ERR_NONE);
	OK(manifest_digest(a, da, &e) == 0 && manifest_digest(b, db, &e) == 0);
	STR_IS(da, db);
	OK(manifest_files(a, files) == 1);
	STR_IS(files[0], "vmlinux");
	OK(manifest_to_image(a, "/d", "n", &img, &e) < 0); /* no digest yet */
	json_object_set_new(a, "digest", json_string(da));
	OK(manifest_to_image(a, "/d", "n", &img, &e) == 0);
	STR_IS(img->kernel, "/d/vmlinux");
	STR_IS(img->firmware, "any");
	STR_IS(img->hostname, "pve-1");
	OK(!img->disk && !img->user && !img->cmdline);
	image_free(img);
	json_decref(a);
	json_decref(b);
}

/* Returns "ok:KIND" or the error's message. */
static const char *probe(const void *p, size_t n, const char *name)
{
	static char out[1200];
	enum probe_kind kind;
	struct err e;
	struct probe_in in = {{p, n}, n, name};

	if (probe_disk(&in, &kind, &e) < 0)
		snprintf(out, sizeof(out), "%s: %s", err_kind_name(e.kind), e.msg);
	else
		snprintf(out, sizeof(out), "ok:%s", probe_kind_name(kind));
	return out;
}

static void test_probe_good(void)
{
	static uint8_t b[4096];

	memset(b, 0, sizeof(b));
	memcpy(b, "QFI\xfb\0\0\0\3", 8);
	STR_IS(probe(b, sizeof(b), "a"), "ok:qcow2");
	memset(b, 0, sizeof(b));
	memcpy(b, "KDMV", 4);
	b[12] = 1;
	STR_IS(probe(b, sizeof(b), "a"), "ok:vmdk");
	memset(b, 0, sizeof(b));
	STR_IS(probe(b, sizeof(b), "a.img"), "ok:raw");
	OK(strstr(probe(b, sizeof(b), "a.bin"), "not a disk image"));
	OK(strstr(probe(b, 700, "a.img"), "not a disk image"));
	memcpy(b + 510, "\x55\xaa", 2);
	STR_IS(probe(b, sizeof(b), "a.bin"), "ok:raw");
	memcpy(b + 257, "ustar", 5);
	STR_IS(probe(b, sizeof(b), "a"), "ok:ova");
}

static void test_probe_hostile(void)
{
	static uint8_t b[0x9000];

	memset(b, 0, sizeof(b));
	memcpy(b, "QFI\xfb\0\0\0\3", 8);
	b[15] = 104; /* offset of a backing file's name */
	OK(strstr(probe(b, sizeof(b), "a"), "backing file"));
	b[15] = 0;
	b[19] = 1; /* its length alone */
	OK(strstr(probe(b, sizeof(b), "a"), "backing file"));
	b[19] = 0;
	b[79] = 4;
	OK(strstr(probe(b, sizeof(b), "a"), "another file"));
	b[79] = 0;
	b[35] = 1;
	OK(strstr(probe(b, sizeof(b), "a"), "encrypted"));
	OK(strstr(probe(b, 71, "a"), "cut short"));
	b[7] = 1;
	OK(strstr(probe(b, sizeof(b), "a"), "unsupported: its format is qcow (version 1)"));
	memset(b, 0, sizeof(b));
	memcpy(b, "KDMV", 4);
	OK(strstr(probe(b, sizeof(b), "a"), "other files"));
	b[12] = 1;
	memcpy(b + 900, "parentFileNameHint=\"/etc/shadow\"", 32);
	OK(strstr(probe(b, sizeof(b), "a"), "parent"));
	OK(strstr(probe("# Disk DescriptorFile\nRW 1 FLAT \"/etc/shadow\" 0\n", 50, "a"),
		"other files"));
	memset(b, 0, sizeof(b));
	memcpy(b, "vhdxfile", 8);
	OK(strcmp(probe(b, sizeof(b), "a.img"), "ok:vhdx") == 0);
	memset(b, 0, sizeof(b));
	memcpy(b + 0x40, "\x7f\x10\xda\xbe", 4);
	OK(strstr(probe(b, sizeof(b), "a.vdi"), "unsupported: vdi of an unknown type"));
	b[0x4c] = 1;
	OK(strcmp(probe(b, sizeof(b), "a"), "ok:vdi") == 0);
	b[0x4c] = 2;
	OK(strcmp(probe(b, sizeof(b), "a"), "ok:vdi") == 0);
	b[0x4c] = 4;
	OK(strstr(probe(b, sizeof(b), "a"), "parent"));
	OK(strstr(probe(b, 0x50, "a"), "cut short"));
	OK(strcmp(probe("\x1f\x8b", 2, "a"), "ok:gzip") == 0);
	OK(strcmp(probe("\xfd"
			"7zXZ",
			  6, "a"),
		   "ok:xz") == 0);
	OK(strcmp(probe("\x28\xb5\x2f\xfd", 4, "a"), "ok:zstd") == 0);
	memset(b, 0, sizeof(b));
	memcpy(b + 0x8001, "CD001", 5);
	OK(strstr(probe(b, sizeof(b), "a.img"), "unsupported: its format is iso"));
	OK(strstr(probe(b, 0, "a.img"), "empty"));
	OK(strstr(probe("hello", 5, "a"), "not a disk image"));
}

static const char *first_disk(const char *xml)
{
	static char out[1200];
	char name[OVF_NAME_MAX];
	struct err e;

	snprintf(out, sizeof(out), "%s", ovf_first_disk(text(xml), name, &e) < 0 ? e.msg : name);
	return out;
}

static void test_ovf(void)
{
	STR_IS(first_disk("<?xml version=\"1.0\"?><!-- <Disk fileRef='no'/> -->\n<Envelope>"
			  "<References><File ovf:href=\"extra.iso\" ovf:id=\"file9\"/>\n"
			  "<ovf:File\n ovf:size='5' ovf:id='file1'  ovf:href = 'disk 1.vmdk' />"
			  "</References><DiskSection><Info>x</Info><Disk ovf:capacity=\"9\" "
			  "ovf:fileRef=\"file1\"/></DiskSection>"),
		"disk 1.vmdk");
	OK(strstr(first_disk("<File id='a' href='x'/>"), "describes no disk"));
	OK(strstr(first_disk("<Disk fileRef='b'/><File id='a' href='x'/>"), "in which file"));
	OK(strstr(first_disk("<Disk fileRef='a'/><File id='a' href='../x'/>"), "not in the OVA"));
	OK(strstr(first_disk("<Disk fileRef='a"), "describes no disk"));
	OK(strstr(first_disk("<Disk fileRef=>"), "describes no disk"));
	OK(strstr(first_disk("<<<<!--"), "describes no disk"));
	OK(strstr(first_disk(""), "describes no disk"));
	OK(strstr(first_disk("<Disk =\"x\" fileRef='a'/><File id='a' href=''/>"), "in which file"));
}

static const char *judge(const char *json)
{
	static struct err e;

	e.msg[0] = 0;
	return qemu_img_judge(text(json), "/f", &e) < 0 ? e.msg : "fine";
}

static void test_judge(void)
{
	STR_IS(judge("{\"virtual-size\":512,\"format-specific\":{\"data\":{\"extents\":"
		     "[{\"filename\":\"/f\"}]}}}"),
		"fine");
	OK(strstr(judge("{\"virtual-size\":512,\"format-specific\":{\"data\":{\"extents\":"
			"[{\"filename\":\"/etc/shadow\"}]}}}"),
		"other files"));
	OK(strstr(judge("{\"virtual-size\":512,\"backing-filename\":\"x\"}"), "backing"));
	OK(strstr(judge("{\"virtual-size\":512,\"format-specific\":{\"data\":"
			"{\"data-file\":\"x\"}}}"),
		"another file"));
	OK(strstr(judge("{\"virtual-size\":36028797018963968}"), "16 TiB"));
	OK(strstr(judge("{\"virtual-size\":-1}"), "16 TiB"));
	OK(strstr(judge("{}"), "size"));
	OK(strstr(judge("nonsense"), "JSON"));
}

int main(void)
{
	test_sha256();
	test_words();
	test_progress_lines();
	test_manifest();
	test_probe_good();
	test_probe_hostile();
	test_ovf();
	test_judge();
	return tap_done();
}
