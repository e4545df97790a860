/*
 * Runs every file of tests/golden/spec: valid-NAME.{yaml,json} must give valid-NAME.normal, and
 * bad-NAME.{yaml,json} must be refused with the message in bad-NAME.err.
 */
#include "spec/spec.h"

#include <dirent.h>

#include "spec/yaml.h"
#include "tap.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/json.h"
#include "util/str.h"

static char *read_golden(const char *name)
{
	auto_free char *path = NULL;
	char *text = NULL;
	size_t len;
	struct err e;

	if (str_printf(&path, &e, SPEC_GOLDEN "/%s", name) < 0 ||
		file_read(path, SPEC_TEXT_MAX, &text, &len, &e) < 0)
		return NULL;
	return text;
}

/* The file with the expected result: the same name with another ending. */
static char *read_expected(const char *name, const char *ending)
{
	auto_free char *other = NULL;
	struct err e;

	if (str_printf(&other, &e, "%.*s%s", (int)(strrchr(name, '.') - name), name, ending) < 0)
		return NULL;
	return read_golden(other);
}

static int parse_text(const char *text, struct sandbox_spec **ret, struct err *e)
{
	auto_json json_t *j = NULL;

	if (spec_text_to_json((struct bytes){(const uint8_t *)text, strlen(text)}, &j, e) < 0)
		return -1;
	return spec_parse(j, ret, e);
}

static void check_valid(const char *name, const char *text)
{
	auto_free char *expected = read_expected(name, ".normal");
	auto_json json_t *want = expected ? json_loads(expected, 0, NULL) : NULL, *got = NULL,
			 *again = NULL;
	auto_spec struct sandbox_spec *spec = NULL, *second = NULL;
	struct err e;

	if (!tap_ok(parse_text(text, &spec, &e) == 0, "%s is accepted", name)) {
		printf("# %s\n", e.msg);
		return;
	}
	if (!tap_ok(spec_to_json(spec, &got, &e) == 0, "%s can be written", name))
		return;
	if (!tap_ok(want && json_equal(got, want), "%s has the normal form expected", name)) {
		auto_free char *shown = json_dumps(got, JSON_INDENT(2));

		printf("# got:\n%s\n", shown);
	}
	tap_ok(spec_parse(got, &second, &e) == 0 && spec_to_json(second, &again, &e) == 0 &&
			json_equal(got, again),
		"%s: the normal form reads as itself", name);
}

static void check_bad(const char *name, const char *text)
{
	auto_free char *expected = read_expected(name, ".err");
	struct sandbox_spec *spec = NULL;
	struct err e = {0};

	if (expected)
		expected[strcspn(expected, "\n")] = '\0';
	if (tap_ok(parse_text(text, &spec, &e) < 0, "%s is refused", name))
		tap_str(e.msg, expected, name);
	tap_ok(!spec && e.kind == ERR_INVALID, "%s: invalid, and nothing is returned", name);
	spec_free(spec);
}

static int run_golden(void)
{
	auto_dir DIR *dir = opendir(SPEC_GOLDEN);
	const struct dirent *d;
	int files = 0;

	while (dir && (d = readdir(dir))) {
		auto_free char *text = NULL;

		if (!str_ends(d->d_name, ".yaml") && !str_ends(d->d_name, ".json"))
			continue;
		text = read_golden(d->d_name);
		if (!tap_ok(text != NULL, "%s can be read", d->d_name))
			continue;
		files++;
		if (str_starts(d->d_name, "valid-"))
			check_valid(d->d_name, text);
		else
			check_bad(d->d_name, text);
	}
	return files;
}

/* Every example in the documentation is a valid spec. */
static void check_documentation(void)
{
	const char *begin = "```yaml\n";
	auto_free char *text = NULL;
	size_t len, examples = 0;
	struct err e;

	OK(file_read(SPEC_DOC, SPEC_TEXT_MAX, &text, &len, &e) == 0);
	for (char *at = text; at && (at = strstr(at, begin));) {
		auto_spec struct sandbox_spec *spec = NULL;
		char *end = strstr(at + strlen(begin), "```");

		if (!tap_ok(end != NULL, "example %zu has an end", ++examples))
			return;
		*end = '\0';
		if (!tap_ok(parse_text(at + strlen(begin), &spec, &e) == 0, "example %zu is a spec",
			    examples))
			printf("# %s\n", e.msg);
		at = end + 1;
	}
	OK(examples >= 4);
}

static void test_start_order(void)
{
	auto_spec struct sandbox_spec *s = NULL;
	size_t order[4];
	struct err e;

	OK(parse_text("vms:\n"
		      "- {name: a, source: tiny, depends_on: [C]}\n"
		      "- {name: b, source: tiny, await_before_next_vm: true}\n"
		      "- {name: c, source: tiny}\n"
		      "- {name: d, source: tiny, depends_on: [b]}\n",
		   &s, &e) == 0);
	spec_start_order(s, order);
	OK(order[0] == 1 && order[1] == 2 && order[2] == 0 && order[3] == 3);
	OK(spec_waits_for(s, 0, 2) && spec_waits_for(s, 2, 1) && spec_waits_for(s, 3, 1));
	OK(!spec_waits_for(s, 0, 1) && !spec_waits_for(s, 2, 0));
	OK(spec_find_vm(s, "B") == &s->vms[1] && !spec_find_vm(s, "x"));
	OK(spec_default_vm(s) == &s->vms[0]);
}

static void test_values(void)
{
	auto_spec struct sandbox_spec *s = NULL;
	struct err e;

	OK(parse_text(
		   "driver: proxmox\n"
		   "networks: {vnets: [{alias: x}, {alias: lan, subnets: [{cidr: 10.0.0.0/24}]}]}\n"
		   "vms:\n"
		   "- name: w\n"
		   "  os_type: win11\n"
		   "  disk_controller: ide\n"
		   "  user: 1000\n"
		   "  source: {existing_vm_template_tag: t}\n"
		   "- name: n\n"
		   "  source: {ova: /a.ova}\n"
		   "  nics: [{vnet: lan, mac: '52:54:00:00:00:01', ipv4: 10.0.0.9}]\n",
		   &s, &e) == 0);
	OK(s->vms[0].source.kind == SPEC_SOURCE_TEMPLATE_TAG && !s->vms[0].source.ova);
	OK(!s->vms[0].nics_given && s->vms[0].n_nics == 0);
	STR_IS(s->vms[0].user, "1000");
	OK(spec_os_is_windows(s->vms[0].os_type) && !spec_os_is_windows(s->vms[1].os_type));
	STR_IS(spec_os_name(s->vms[0].os_type), "win11");
	STR_IS(spec_disk_name(s->vms[0].disk_controller), "ide");
	OK(s->vms[0].nic_controller == SPEC_NIC_DEFAULT);
	STR_IS(spec_driver_name(s->driver), "proxmox");
	OK(s->vms[1].nics_given && s->vms[1].nics[0].vnet_index == 1);
	OK(s->vms[1].nics[0].ipv4 == 0x0a000009 && s->vms[1].nics[0].mac.b[5] == 1);
}

static void test_errors_of_drivers(void)
{
	struct err e;

	OK(spec_err(&e, SPEC_PLACE("vms[%zu].cpu", (size_t)3), "no model %s", "z80") == -1);
	STR_IS(e.msg, "vms[3].cpu: no model z80");
	OK(e.kind == ERR_INVALID);
	OK(spec_unsupported(&e, "pool", "qemu has no pools") == -1 && e.kind == ERR_UNSUPPORTED);
	STR_IS(e.msg, "pool: qemu has no pools");
}

/* Values that a program can send, but no file can contain. */
static void test_odd_json(void)
{
	auto_json json_t *nul = NULL, *deep = json_object(), *not_object = json_integer(3),
			 *spec = NULL;
	struct sandbox_spec *s = NULL;
	struct err e;

	nul = json_pack(
		"{s:[{s:o, s:s}]}", "vms", "name", json_stringn("a\0b", 3), "source", "tiny");
	OK(spec_parse(nul, &s, &e) < 0);
	STR_IS(e.msg, "vms[0].name: contains a NUL character");
	OK(spec_parse(not_object, &s, &e) < 0);
	STR_IS(e.msg, "spec: expected an object, got a whole number");
	for (int i = 0; i < 40; i++)
		deep = json_pack("{s:o}", "x", deep);
	spec = json_pack("{s:[{s:s, s:O}]}", "vms", "source", "tiny", "native", deep);
	OK(spec_parse(spec, &s, &e) < 0 && !s);
	STR_IS(e.msg, "vms[0].native: is nested more than 32 levels deep");
}

static void test_schema(void)
{
	auto_free char *text = NULL;
	auto_json json_t *schema = NULL;
	json_t *vm;
	struct err e;

	OK(spec_schema(&text, &e) == 0);
	schema = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
	OK(schema != NULL);
	OK(json_is_false(json_object_get(schema, "additionalProperties")));
	vm = json_object_get(json_object_get(schema, "$defs"), "vm");
	vm = json_object_get(json_object_get(vm, "properties"), "vcpus");
	OK(json_integer_value(json_object_get(vm, "minimum")) == 1);
	OK(json_integer_value(json_object_get(vm, "maximum")) == 512);
	OK(json_integer_value(json_object_get(vm, "default")) == 2);
}

int main(void)
{
	OK(run_golden() >= 60);
	check_documentation();
	test_start_order();
	test_values();
	test_errors_of_drivers();
	test_odd_json();
	test_schema();
	return tap_done();
}
