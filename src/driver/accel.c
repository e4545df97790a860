#include "driver/accel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/auto.h"

#if defined(__x86_64__)
static bool cpu_has_virtualisation(void)
{
	auto_file FILE *f = fopen("/proc/cpuinfo", "re");
	auto_free char *line = NULL;
	size_t cap = 0;

	while (f && getline(&line, &cap, f) > 0)
		if (strncmp(line, "flags", 5) == 0)
			return strstr(line, " vmx") || strstr(line, " svm");
	return false;
}

/* The group kvm has /dev/kvm where udev made it. In containers it may belong to root alone. */
static const char *how_to_open(void)
{
	struct stat st;

	if (stat("/dev/kvm", &st) == 0 && (st.st_gid == 0 || (st.st_mode & 0060) != 0060))
		return "sudo chmod 666 /dev/kvm";
	return "sudo usermod -aG kvm $USER, then log in again";
}

static void look(struct kvm_report *ret)
{
	auto_fd int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		*ret = (struct kvm_report){"there is no /dev/kvm",
			"switch virtualisation on in the firmware; in a VM, nested virtualisation"};
	else if (!cpu_has_virtualisation())
		*ret = (struct kvm_report){"the CPU has neither vmx nor svm",
			"switch virtualisation on in the firmware; in a VM, nested virtualisation"};
	else if (fd < 0)
		*ret = (struct kvm_report){"/dev/kvm cannot be opened", how_to_open()};
}
#else
static void look(struct kvm_report *ret)
{
	ret->why = "local VMs are x86-64 machines, and this is none";
}
#endif

bool accel_kvm_works(struct kvm_report *ret)
{
	*ret = (struct kvm_report){.why = "", .fix = ""};
	look(ret);
	return !ret->why[0];
}
