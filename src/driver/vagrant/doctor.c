#include "driver/vagrant/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/doctor.h"
#include "driver/vagrant/env.h"
#include "driver/vagrant/parse.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/system/proc.h"
#include "util/str.h"

#define SOON 60.0 /* seconds: Ruby on a busy machine */

enum { OUTPUT_MAX = 256 * 1024 };

struct checkup {
	const struct op *op;
	struct strv env;
	struct doctor doctor;
};

/* Finds a program in the client's PATH, which need not be ours. */
static char *find_program(const struct checkup *u, const char *name)
{
	const char *path = env_find(&u->env, "PATH");

	for (const char *at = path ? path : ""; *at;) {
		size_t len = strcspn(at, ":");
		char *file = NULL;
		struct err ignored;

		if (len && str_printf(&file, &ignored, "%.*s/%s", (int)len, at, name) == 0 &&
			access(file, X_OK) == 0)
			return file;
		free(file);
		at += len + (at[len] == ':');
	}
	return NULL;
}

/* What a command printed, if it succeeded; NULL otherwise, with its last words in why. */
static char *run(const struct checkup *u, const char *const *argv, char *why, size_t size)
{
	auto_free char *program = find_program(u, argv[0]);
	const char *words[8] = {program};
	struct proc_req req = {.argv = words,
		.env = (const char *const *)u->env.v,
		.cwd = "/",
		.out_max = OUTPUT_MAX};
	auto_proc_result struct proc_result res = {0};
	struct op soon = op_within(u->op, SOON);
	auto_free char *complaint = NULL;
	struct err e;

	for (unsigned i = 1; argv[i] && i + 1 < ARRAY_LEN(words); i++)
		words[i] = argv[i];
	snprintf(why, size, "not found in PATH");
	if (!program)
		return NULL;
	if (proc_run(&soon, &req, &res, &e) < 0) {
		str_escape(e.msg, strlen(e.msg), why, size);
		return NULL;
	}
	if (res.exit_code == 0)
		return buf_take_str(&res.out);
	complaint = buf_take_str(&res.err);
	if (complaint) {
		complaint[strcspn(complaint, "\n")] = 0;
		str_escape(complaint, strlen(complaint), why, size);
	}
	return NULL;
}

static bool check_vagrant(const struct checkup *u)
{
	static const char *const argv[] = {"vagrant", "--version", NULL};
	char why[200];
	auto_free char *text = run(u, argv, why, sizeof(why));

	if (text)
		text[strcspn(text, "\n")] = 0;
	doctor_say(&u->doctor, "vagrant", text ? CHECK_OK : CHECK_MISSING, text ? text : why,
		"apt-get install vagrant vagrant-libvirt");
	return text;
}

/* Fills names with "a 1.0, b 2.0". Lines are "epoch,NAME,plugin-name,NAME" and the like. */
static void list_plugins(char *text, char *names, size_t size)
{
	char *rest = NULL;

	names[0] = 0;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		struct vagrant_line l;

		if (!vagrant_line_parse(line, &l) || l.n_data < 1)
			continue;
		if (strcmp(l.type, "plugin-name") == 0)
			snprintf(names + strlen(names), size - strlen(names), "%s%s",
				*names ? ", " : "", l.data[0]);
		else if (strcmp(l.type, "plugin-version") == 0)
			snprintf(names + strlen(names), size - strlen(names), " %s", l.data[0]);
	}
}

static void check_plugins(const struct checkup *u, char *plugins, size_t size)
{
	static const char *const argv[] = {"vagrant", "plugin", "list", "--machine-readable", NULL};
	char why[200];
	auto_free char *text = run(u, argv, why, sizeof(why));

	plugins[0] = 0;
	if (text)
		list_plugins(text, plugins, size);
	doctor_say(&u->doctor, "plugins", text ? CHECK_OK : CHECK_WARN,
		!text      ? why
		: *plugins ? plugins
			   : "none",
		"vagrant plugin list");
}

/* Some providers come with Vagrant and need their program; the others are plugins. */
static void check_providers(const struct checkup *u, const char *plugins)
{
	static const struct {
		const char *provider, *plugin, *program;
	} known[] = {{"libvirt", "vagrant-libvirt", NULL}, {"qemu", "vagrant-qemu", NULL},
		{"virtualbox", NULL, "VBoxManage"},
		{"vmware_desktop", "vagrant-vmware-desktop", NULL},
		{"parallels", "vagrant-parallels", NULL}, {"docker", NULL, "docker"}};
	const char *preferred = env_find(&u->env, "VAGRANT_DEFAULT_PROVIDER");
	char found[200] = "";

	for (unsigned i = 0; i < ARRAY_LEN(known); i++) {
		auto_free char *program =
			known[i].program ? find_program(u, known[i].program) : NULL;

		if (program || (known[i].plugin && strstr(plugins, known[i].plugin)))
			snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s%s",
				*found ? ", " : "", known[i].provider);
	}
	if (*found && preferred)
		snprintf(found + strlen(found), sizeof(found) - strlen(found),
			" (VAGRANT_DEFAULT_PROVIDER is %.60s)", preferred);
	doctor_say(&u->doctor, "providers", *found ? CHECK_OK : CHECK_MISSING,
		*found ? found : "none found", "apt-get install vagrant-libvirt");
}

static void check_libvirt(const struct checkup *u, const char *plugins)
{
	static const char *const argv[] = {"virsh", "-q", "uri", NULL};
	char why[200];
	auto_free char *text = NULL;

	if (!strstr(plugins, "vagrant-libvirt"))
		return;
	text = run(u, argv, why, sizeof(why));
	if (text)
		text[strcspn(text, "\n")] = 0;
	doctor_say(&u->doctor, "libvirt", text ? CHECK_OK : CHECK_WARN, text ? text : why,
		"apt-get install libvirt-daemon-system libvirt-clients");
}

static void check_boxes(const struct checkup *u)
{
	static const char *const argv[] = {"vagrant", "box", "list", "--machine-readable", NULL};
	char why[200], detail[64];
	auto_free char *text = run(u, argv, why, sizeof(why));
	unsigned n = 0;

	for (const char *at = text; at && (at = strstr(at, ",box-name,")); at++)
		n++;
	snprintf(detail, sizeof(detail), "%u here; others are fetched when first used", n);
	doctor_say(&u->doctor, "boxes", text ? CHECK_OK : CHECK_WARN, text ? detail : why,
		"vagrant box list");
}

int vagrant_doctor(const struct driver_env *env, const struct op *op, const json_t *access,
	void (*say)(void *arg, const struct check *c), void *arg, struct err *e)
{
	struct checkup u = {.op = op, .doctor = {say, arg}};
	char plugins[240];
	bool there;

	if (env_of_client(access, &u.env, e) < 0) {
		strv_free(&u.env);
		return -1;
	}
	env_set(&u.env, "VAGRANT_CHECKPOINT_DISABLE", "1");
	there = strv_check(&u.env, e) == 0 && check_vagrant(&u);
	if (there) {
		check_plugins(&u, plugins, sizeof(plugins));
		check_providers(&u, plugins);
		check_libvirt(&u, plugins);
		check_boxes(&u);
	}
	doctor_runners(&u.doctor, env, "machines of that kind cannot be used");
	doctor_say(&u.doctor, "moat-ssh", env->ssh_path ? CHECK_OK : CHECK_MISSING,
		env->ssh_path ? env->ssh_path : "not found beside moat", "reinstall moat");
	strv_free(&u.env);
	return 0;
}
