#include "driver/qemu/doctor.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/qemu/vm/uefi.h"
#include "driver/accel.h"
#include "driver/doctor.h"
#include "net/check.h"
#include "util/auto.h"
#include "util/system/proc.h"

#define ALLOW_NAMESPACES                                                                           \
	"sudo sysctl -w kernel.unprivileged_userns_clone=1 "                                       \
	"kernel.apparmor_restrict_unprivileged_userns=0"

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

static void check_program(const struct doctor *d, const struct op *op, const char *name,
	const char *program, const char *fix)
{
	auto_free char *line = first_line(op, program);

	doctor_say(d, name, line ? CHECK_OK : CHECK_MISSING,
		line ? line : "not found or does not run", fix);
}

static void check_kvm(const struct doctor *d)
{
	struct kvm_report kvm;
	char detail[200];

	if (accel_kvm_works(&kvm)) {
		doctor_say(d, "kvm", CHECK_OK, "/dev/kvm works", "");
		return;
	}
	snprintf(detail, sizeof(detail), "%s: VMs are emulated and slow", kvm.why);
	doctor_say(d, "kvm", CHECK_WARN, detail, kvm.fix);
}

extern const char qemu_script_confined[]; /* confined.sh */

/* Runs a script where a QEMU would run: it looks whether anything is left out there. */
static void check_confinement(
	const struct driver_env *env, const struct doctor *d, const struct op *op)
{
	enum { ALL_THERE, NO_NAMESPACES, HOST_FILES, NO_IDS };
	const char *argv[] = {"sh", "-c", qemu_script_confined, NULL};
	struct proc_req req = {
		.argv = argv, .out_max = 4096, .guard = env->helper_path, .confine = "vm"};
	auto_proc_result struct proc_result res = {0};
	struct op soon = op_within(op, 20);
	struct err e;

	if (proc_run(&soon, &req, &res, &e) < 0)
		res.exit_code = NO_NAMESPACES;
	switch (res.exit_code) {
	case ALL_THERE:
		doctor_say(d, "namespaces", CHECK_OK,
			"each VM runs in namespaces of its own and sees no file of the host", "");
		return;
	case HOST_FILES:
		doctor_say(d, "namespaces", CHECK_WARN,
			"no mounts are allowed: VMs run where the host's files can be seen",
			ALLOW_NAMESPACES);
		return;
	case NO_IDS:
		doctor_say(d, "namespaces", CHECK_WARN,
			"there are too few user ids here: all VMs run as nobody",
			"give the container the user and group ids from 1879048192 to 1883242495");
		return;
	default:
		doctor_say(d, "namespaces", CHECK_WARN,
			"not allowed: VMs run without that second barrier", ALLOW_NAMESPACES);
	}
}

static void check_firmware(const struct doctor *d)
{
	bool there = uefi_find("") != NULL;

	doctor_say(d, "uefi", there ? CHECK_OK : CHECK_WARN,
		there ? "OVMF firmware" : "no OVMF firmware: uefi_boot will be refused",
		"apt-get install ovmf");
}

/* Says what `moat up` would say. Few need VLANs: all else works without them. */
static void check_networks(const struct doctor *d, const struct op *op)
{
	struct net_fault faults[NET_FAULTS_MAX];
	unsigned n = net_check(op, (struct net_needs){.has_egress = true, .vlans = true}, faults);
	bool vlans = n && strcmp(faults[n - 1].what, "vlans") == 0;

	if (n == vlans)
		doctor_say(
			d, "networks", CHECK_OK, "bridges, DHCP, rules and egress can be made", "");
	for (unsigned i = 0; i < n; i++)
		doctor_say(d, vlans && i == n - 1 ? "vlans" : "networks", CHECK_WARN,
			faults[i].detail, faults[i].fix);
}

int qemu_doctor(const struct driver_env *env, const struct op *op,
	void (*report)(void *arg, const struct check *c), void *arg, struct err *e)
{
	struct doctor d = {report, arg};

	check_program(&d, op, "qemu", env->qemu, "apt-get install qemu-system-x86");
	check_program(&d, op, "qemu-img", "qemu-img", "apt-get install qemu-utils");
	check_kvm(&d);
	check_confinement(env, &d, op);
	check_networks(&d, op);
	check_firmware(&d);
	doctor_runners(&d, env, "commands go through the plain guest agent");
	return op_check(op, e);
}
