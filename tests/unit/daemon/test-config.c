#include "daemon/config.h"

#include "tap.h"
#include "scratch.h"
#include "util/json.h"

static int load(const char *text, struct config *ret, struct err *e)
{
	put_file(at("config"), text);
	return config_load(at("config"), ret, e);
}

static void test_defaults(const char *path)
{
	struct config c = {0};
	struct err e;

	OK(config_load(path, &c, &e) == 0);
	STR_IS(c.accel, "auto");
	STR_IS(c.qemu, "qemu-system-x86_64");
	STR_IS(c.log_level, "info");
	OK(c.idle_exit == 60 && c.boot_timeout == 600 && c.memory_keep_mb == 512);
	OK(c.outage_timeout == 120 && c.download_max_mb == 102400);
	STR_IS(c.compose_egress, "open");
	config_free(&c);
	OK(!c.accel);
}

static void test_values(void)
{
	auto_json json_t *j = NULL;
	struct config c = {0};
	struct err e;

	OK(load("accelerator: tcg\nqemu: /opt/qemu\nlog_level: debug\nidle_exit: 0\n"
		"boot_timeout: 1.5\noutage_timeout: 2.5\nmemory_keep_mb: 0\nimage_mirror: "
		"https://mirror/x\ndownload_max_mb: 7\ncompose_egress: deny\n"
		"proxmox_repository: http://mirror/pve\n",
		   &c, &e) == 0);
	STR_IS(c.accel, "tcg");
	STR_IS(c.qemu, "/opt/qemu");
	STR_IS(c.image_mirror, "https://mirror/x");
	STR_IS(c.compose_egress, "deny");
	STR_IS(c.proxmox_repository, "http://mirror/pve");
	OK(c.idle_exit == 0 && c.boot_timeout == 1.5 && c.memory_keep_mb == 0);
	OK(c.outage_timeout == 2.5 && c.download_max_mb == 7);
	j = config_to_json(&c);
	STR_IS(json_string_value(json_object_get(j, "log_level")), "debug");
	config_free(&c);
	OK(load("{\"memory_keep_mb\": 4096}", &c, &e) == 0 && c.memory_keep_mb == 4096);
	config_free(&c);
}

static const struct {
	const char *text, *words;
} wrong[] = {
	{"acelerator: kvm", "configuration: unknown member: acelerator"},
	{"accelerator: xen", "accelerator: \"xen\" is not one of \"auto\", \"kvm\", \"tcg\""},
	{"accelerator: 3", "Expected string, got integer"},
	{"log_level: loud",
		"log_level: \"loud\" is not one of \"debug\", \"info\", \"warn\", \"error\""},
	{"compose_egress: allow", "compose_egress: \"allow\" is not one of \"open\", \"deny\""},
	{"idle_exit: soon", "Expected real or integer, got string"},
	{"idle_exit: -1", "idle_exit: cannot be negative"},
	{"outage_timeout: -1", "outage_timeout: cannot be negative"},
	{"boot_timeout: 0", "boot_timeout: must be more than 0"},
	{"memory_keep_mb: -5", "memory_keep_mb: not between 0 and 1073741824"},
	{"memory_keep_mb: 4294967297", "memory_keep_mb: not between"},
	{"memory_keep_mb: 1.5", "Expected integer, got real"},
	{"download_max_mb: -1", "download_max_mb: not between 0 and 1073741824"},
	{"image_mirror: ftp://x", "image_mirror: must begin with http:// or https://"},
	{"proxmox_repository: pve", "proxmox_repository: must begin with http:// or https://"},
	{"proxmox_repository: http://x/ [trusted=yes]", "proxmox_repository: must begin"},
	{"- a\n- list", "not an object"},
	{"just text", "not an object"},
	{"a: [", "line "},
	{"idle_exit: 1\nidle_exit: 2", "line 2"},
};

static void test_wrong(void)
{
	struct config c = {0};
	struct err e;

	for (unsigned i = 0; i < ARRAY_LEN(wrong); i++) {
		int rc = load(wrong[i].text, &c, &e);

		tap_ok(rc < 0 && e.kind == ERR_INVALID && strstr(e.msg, wrong[i].words) &&
				strstr(e.msg, at("config")) && !c.accel,
			"%s", wrong[i].words);
	}
	OK(mkdir(at("dir"), 0700) == 0 && config_load(at("dir"), &c, &e) < 0);
	OK(e.kind == ERR_IS_DIR);
}

int main(void)
{
	scratch_begin();
	test_defaults(at("missing"));
	put_file(at("empty"), "");
	test_defaults(at("empty"));
	put_file(at("comment"), "# accelerator: kvm\n\n  # more\n");
	test_defaults(at("comment"));
	put_file(at("object"), "{}");
	test_defaults(at("object"));
	put_file(at("null"), "---\n");
	test_defaults(at("null"));
	test_values();
	test_wrong();
	scratch_end();
	return tap_done();
}
