#include "net/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/system/proc.h"

static const struct {
	const char *program, *package;
	bool for_egress;
} programs[] = {
	{"ip", "iproute2", false},
	{"nft", "nftables", false},
	{"dnsmasq", "dnsmasq-base", false},
	{"pasta", "passt", true},
};

static const char *const fixes[] = {"apt-get install iproute2", "apt-get install nftables",
	"apt-get install dnsmasq-base", "apt-get install passt"};

/* Searches the PATH that the holder gets, see net.c. */
static bool is_installed(const char *program)
{
	const char *path = getenv("PATH");
	char dirs[8192], file[512], *at = dirs, *dir;

	snprintf(
		dirs, sizeof(dirs), "%s:/usr/sbin:/sbin:/usr/local/sbin", path ? path : "/usr/bin");
	while ((dir = strsep(&at, ":"))) {
		snprintf(file, sizeof(file), "%.400s/%s", dir, program);
		if (access(file, X_OK) == 0)
			return true;
	}
	return false;
}

static bool succeeds(const struct op *op, const char *const *argv)
{
	struct proc_req req = {.argv = argv, .out_max = 4096};
	auto_proc_result struct proc_result res = {0};
	struct op soon = op_within(op, 20);
	struct err ignored;

	return proc_run(&soon, &req, &res, &ignored) == 0 && res.exit_code == 0;
}

static bool userns_works(const struct op *op)
{
	const char *argv[] = {"unshare", getuid() == 0 ? "-pn" : "-Urpn", "--fork", "true", NULL};

	return succeeds(op, argv);
}

/* Call it only where namespaces can be made. */
static bool vlans_work(const struct op *op)
{
	const char *argv[] = {"unshare", getuid() == 0 ? "-n" : "-Urn", "ip", "link", "add", "br0",
		"type", "bridge", "vlan_filtering", "1", NULL};

	return succeeds(op, argv);
}

static struct net_fault *add(struct net_fault *faults, unsigned *n, const char *what)
{
	struct net_fault *f = &faults[(*n)++];

	*f = (struct net_fault){.what = what};
	return f;
}

unsigned net_check(
	const struct op *op, struct net_needs needs, struct net_fault faults[NET_FAULTS_MAX])
{
	struct net_fault *f;
	unsigned n = 0;
	int tun;

	for (unsigned i = 0; i < ARRAY_LEN(programs); i++) {
		if ((programs[i].for_egress && !needs.has_egress) ||
			is_installed(programs[i].program))
			continue;
		f = add(faults, &n, programs[i].program);
		f->fix = fixes[i];
		snprintf(f->detail, sizeof(f->detail), "%s is not installed", programs[i].program);
	}
	tun = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	if (tun < 0) {
		int eno = errno;

		f = add(faults, &n, "tun");
		snprintf(f->detail, sizeof(f->detail), "/dev/net/tun cannot be opened: %s",
			strerror(eno));
		f->fix = eno == ENOENT ? "sudo modprobe tun" : "sudo chmod 666 /dev/net/tun";
	} else {
		close(tun);
	}
	if (!userns_works(op)) {
		f = add(faults, &n, "namespaces");
		snprintf(f->detail, sizeof(f->detail),
			"this user may not make user and network namespaces");
		f->fix = "sudo sysctl -w kernel.unprivileged_userns_clone=1 "
			 "kernel.apparmor_restrict_unprivileged_userns=0";
	} else if (needs.vlans && !vlans_work(op)) {
		f = add(faults, &n, "vlans");
		snprintf(f->detail, sizeof(f->detail),
			"this kernel's bridges cannot filter by VLAN: no vnet may have NICs with "
			"a vlan_tag beside NICs without one");
		f->fix = "use a kernel with CONFIG_BRIDGE_VLAN_FILTERING, or give every NIC of "
			 "the vnet a vlan_tag";
	}
	return n;
}

void net_check_explain(const struct op *op, const struct net_plan *p, struct err *e)
{
	struct net_fault faults[NET_FAULTS_MAX];

	struct net_needs needs = {.has_egress = p->has_egress, .vlans = p->filter};

	if (!net_check(op, needs, faults))
		return;
	err_set(e, ERR_UNSUPPORTED, "%s; to fix it: %s", faults[0].detail, faults[0].fix);
}
