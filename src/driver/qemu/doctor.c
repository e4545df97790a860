#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/accel.h"
#include "driver/qemu-vm.h"
#include "net/check.h"
#include "util/auto.h"
#include "util/io.h"
#include "util/json.h"

struct report {
	void (*say)(void *arg, const struct check *c);
	void *arg;
};

static void say(
	const struct report *r, const char *name, int state, const char *detail, const char *fix)
{
	struct check c = {.name = name, .state = state};

	snprintf(c.detail, sizeof(c.detail), "%s", detail);
	snprintf(c.fix, sizeof(c.fix), "%s", state == CHECK_OK ? "" : fix);
	r->say(r->arg, &c);
}

/* Runs `program --version`; the first line of its answer, or NULL. */
static char *first_line(const struct op *op, const char *program)
{
	const char *argv[] = {program, "--version", NULL};
	struct proc_req req = {.argv = argv, .out_max = 64 * 1024};
	auto_proc_result struct proc_result res = {0};
	struct op soon = op_within(op, 20);
	struct err ignored;
	char *text;

	if (proc_run(&soon, &req, &res, &ignored) < 0 || res.exit_code != 0)
		return NULL;
	text = buf_take_str(&res.out);
	if (text)
		text[strcspn(text, "\n")] = 0;
	return text;
}

static void check_program(const struct report *r, const struct op *op, const char *name,
	const char *program, const char *fix)
{
	auto_free char *line = first_line(op, program);

	say(r, name, line ? CHECK_OK : CHECK_MISSING, line ? line : "not found or does not run",
		fix);
}

static void check_kvm(const struct report *r)
{
	struct kvm_report kvm;
	char detail[200];

	if (accel_kvm_works(&kvm)) {
		say(r, "kvm", CHECK_OK, "/dev/kvm works", "");
		return;
	}
	snprintf(detail, sizeof(detail), "%s: VMs are emulated and slow", kvm.why);
	say(r, "kvm", CHECK_WARN, detail, kvm.fix);
}

/* Tries what a guard does, by running one that ends at once. */
static void check_namespaces(const struct report *r, const struct op *op)
{
	const char *argv[] = {"unshare", getuid() == 0 ? "-pn" : "-Upn", "--fork", "true", NULL};
	struct proc_req req = {.argv = argv, .out_max = 4096};
	auto_proc_result struct proc_result res = {0};
	struct op soon = op_within(op, 20);
	struct err e;
	bool works = proc_run(&soon, &req, &res, &e) == 0 && res.exit_code == 0;

	say(r, "namespaces", works ? CHECK_OK : CHECK_WARN,
		works ? "each VM runs in its own pid and network namespace"
		      : "not allowed: VMs run without that second wall",
		"sudo sysctl -w kernel.unprivileged_userns_clone=1 "
		"kernel.apparmor_restrict_unprivileged_userns=0");
}

static void check_firmware(const struct report *r)
{
	bool there = path_exists("/usr/share/OVMF/OVMF_CODE_4M.fd") ||
		     path_exists("/usr/share/OVMF/OVMF_CODE.fd") ||
		     path_exists("/usr/share/edk2/x64/OVMF_CODE.4m.fd") ||
		     path_exists("/usr/share/edk2/ovmf/OVMF_CODE.fd");

	say(r, "uefi", there ? CHECK_OK : CHECK_WARN,
		there ? "OVMF firmware" : "no OVMF firmware: uefi_boot will be refused",
		"apt-get install ovmf");
}

/* What `up` would say, before it has to. VLANs are for few: all else works without them. */
static void check_networks(const struct report *r, const struct op *op)
{
	struct net_fault faults[NET_FAULTS_MAX];
	unsigned n = net_check(op, (struct net_needs){.way_out = true, .vlans = true}, faults);
	bool vlans = n && strcmp(faults[n - 1].what, "vlans") == 0;

	if (n == vlans)
		say(r, "networks", CHECK_OK, "bridges, DHCP, rules and a way out can be made", "");
	for (unsigned i = 0; i < n; i++)
		say(r, vlans && i == n - 1 ? "vlans" : "networks", CHECK_WARN, faults[i].detail,
			faults[i].fix);
}

int qemu_doctor(const struct driver_env *env, const struct op *op,
	void (*report)(void *arg, const struct check *c), void *arg, struct err *e)
{
	struct report r = {report, arg};

	check_program(&r, op, "qemu", env->qemu, "apt-get install qemu-system-x86");
	check_program(&r, op, "qemu-img", "qemu-img", "apt-get install qemu-utils");
	check_program(&r, op, "prlimit", "prlimit", "apt-get install util-linux");
	check_kvm(&r);
	check_namespaces(&r, op);
	check_networks(&r, op);
	check_firmware(&r);
	say(&r, "runner", env->runner_path ? CHECK_OK : CHECK_WARN,
		env->runner_path
			? env->runner_path
			: "moat-guest is missing: commands go through the plain guest agent",
		"apt-get install musl-tools, then build moat again");
	return op_check(op, e);
}
