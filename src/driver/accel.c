#include "driver/accel.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/auto.h"

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

bool accel_kvm_works(char *why, size_t why_size)
{
	auto_fd int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	struct stat st;

	if (fd < 0) {
		snprintf(why, why_size, "/dev/kvm cannot be opened");
		return false;
	}
#if defined(__x86_64__)
	if (!cpu_has_virtualisation()) {
		snprintf(why, why_size, "the CPU has neither vmx nor svm");
		return false;
	}
#endif
	/* As root we start QEMU as nobody with the group of /dev/kvm. */
	if (getuid() == 0 && fstat(fd, &st) == 0 && !(st.st_mode & 0060) && !(st.st_mode & 0006)) {
		snprintf(
			why, why_size, "/dev/kvm is for root alone, and QEMU does not run as root");
		return false;
	}
	why[0] = 0;
	return true;
}
