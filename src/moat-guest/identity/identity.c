/*
 * identity.c - each step changes one part of the identity and checks that the change holds. The
 * first step that fails is the answer: a VM that still has the identity of another must not be
 * used.
 */

#include "moat-guest/identity/identity.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "moat-guest/files/files.h"
#include "moat-guest/common/text.h"
#include "util/auto.h"

#define NETS "/sys/class/net"

/* As in linux/random.h, which the static build does not see. */
struct pool_info {
	int entropy_count, buf_size;
	uint8_t buf[WIRE_RANDOM_MAX];
};
#define ADD_ENTROPY _IOW('R', 0x03, int[2])
#define RESEED      _IO('R', 0x07)

enum {
	CLOCK_SLACK_S = 60,
	LOW_INDEX = 16, /* NICs that were there at boot have lower numbers */
};

static int set_clock(uint64_t ns)
{
	struct timespec want = {
		.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
	struct timespec is;

	if (clock_settime(CLOCK_REALTIME, &want) < 0 || clock_gettime(CLOCK_REALTIME, &is) < 0)
		return errno;
	return is.tv_sec < want.tv_sec || is.tv_sec > want.tv_sec + CLOCK_SLACK_S ? EIO : 0;
}

/* All copies have the same pool of randomness: mix in bytes that only this copy has, and reseed. */
static int add_randomness(const uint8_t *p, size_t n)
{
	auto_fd int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
	struct pool_info info = {.entropy_count = (int)n * 8, .buf_size = (int)n};

	if (fd < 0)
		return errno;
	memcpy(info.buf, p, n);
	if (ioctl(fd, ADD_ENTROPY, &info) < 0)
		return errno;
	/* Kernels before 4.14 have no such request, and reseed within seconds. */
	if (ioctl(fd, RESEED) < 0 && errno != EINVAL && errno != ENOTTY)
		return errno;
	return 0;
}

/* The line of /etc/hosts by which a Debian system finds its own name. */
static int rename_in_hosts(const char *name)
{
	auto_free char *old = text_read("/etc/hosts"), *text = NULL;
	char *at, *end;

	if (!old || !(at = strstr(old, "127.0.1.1")) || (at > old && at[-1] != '\n'))
		return 0;
	end = at + strcspn(at, "\n");
	if (asprintf(&text, "%.*s127.0.1.1 %s%s", (int)(at - old), old, name, end) < 0)
		return ENOMEM;
	return text_put("/etc/hosts", text, 0);
}

static int set_hostname(const char *name)
{
	char line[128], is[128] = "";
	int error;

	if (sethostname(name, strlen(name)) < 0 || gethostname(is, sizeof(is)) < 0)
		return errno;
	if (strcmp(is, name) != 0)
		return EIO;
	snprintf(line, sizeof(line), "%s\n", name);
	error = text_put("/etc/hostname", line, 0);
	return error ? error : rename_in_hosts(name);
}

static int set_machine_id(const char *id)
{
	static const char *const files[] = {"/etc/machine-id", "/var/lib/dbus/machine-id"};
	char line[MACHINE_ID_LEN + 2];

	snprintf(line, sizeof(line), "%s\n", id);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		int error = text_put(files[i], line, 0);

		if (error)
			return error;
	}
	return 0;
}

static int get_mac(int sock, const char *name, struct ifreq *ret)
{
	*ret = (struct ifreq){0};
	snprintf(ret->ifr_name, sizeof(ret->ifr_name), "%s", name);
	return ioctl(sock, SIOCGIFHWADDR, ret) < 0 ? errno : 0;
}

/* Old drivers want the NIC down while its address changes. */
static int set_mac_down(int sock, struct ifreq *req)
{
	struct ifreq flags = {0};
	int error = 0;

	memcpy(flags.ifr_name, req->ifr_name, sizeof(flags.ifr_name));
	if (ioctl(sock, SIOCGIFFLAGS, &flags) < 0)
		return errno;
	flags.ifr_flags &= (short)~IFF_UP;
	if (ioctl(sock, SIOCSIFFLAGS, &flags) < 0)
		return errno;
	if (ioctl(sock, SIOCSIFHWADDR, req) < 0)
		error = errno;
	flags.ifr_flags |= IFF_UP;
	if (ioctl(sock, SIOCSIFFLAGS, &flags) < 0 && !error)
		error = errno;
	return error;
}

static int set_mac(int sock, const char *name, const uint8_t mac[6])
{
	struct ifreq req = {0};
	int error;

	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", name);
	req.ifr_hwaddr.sa_family = ARPHRD_ETHER;
	memcpy(req.ifr_hwaddr.sa_data, mac, 6);
	if (ioctl(sock, SIOCSIFHWADDR, &req) < 0) {
		error = errno == EBUSY ? set_mac_down(sock, &req) : errno;
		if (error)
			return error;
	}
	error = get_mac(sock, name, &req);
	if (!error && memcmp(req.ifr_hwaddr.sa_data, mac, 6) != 0)
		error = EIO;
	return error;
}

static bool has_mac(int sock, const char *name, const uint8_t mac[6])
{
	struct ifreq req;

	return get_mac(sock, name, &req) == 0 && memcmp(req.ifr_hwaddr.sa_data, mac, 6) == 0;
}

/* The name of the NIC that has this address; false: there is none. Most are found by asking for
 * low numbers, which is far less work than a look into sysfs. */
static bool find_nic(int sock, const uint8_t mac[6], char ret[IFNAMSIZ])
{
	auto_dir DIR *dir = NULL;
	struct dirent *ent;

	for (int i = 1; i <= LOW_INDEX; i++) {
		struct ifreq req = {.ifr_ifindex = i};

		if (ioctl(sock, SIOCGIFNAME, &req) == 0 && has_mac(sock, req.ifr_name, mac)) {
			memcpy(ret, req.ifr_name, IFNAMSIZ);
			return true;
		}
	}
	dir = opendir(NETS);
	while (dir && (ent = readdir(dir))) {
		size_t len = strlen(ent->d_name);

		if (ent->d_name[0] != '.' && len < IFNAMSIZ && has_mac(sock, ent->d_name, mac)) {
			memcpy(ret, ent->d_name, len + 1);
			return true;
		}
	}
	return false;
}

static int set_nics(const struct identity *id)
{
	auto_fd int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char name[IFNAMSIZ];

	if (sock < 0)
		return errno;
	for (uint32_t i = 0; i < id->n_nics; i++) {
		int error;

		/* A NIC without a driver has no address to change. */
		if (!find_nic(sock, id->nics[i].old, name))
			continue;
		error = set_mac(sock, name, id->nics[i].mac);
		if (error)
			return error;
	}
	return 0;
}

/* systemd-networkd and NetworkManager act on the cable; busybox's client waits for its next try. */
static int renew_leases(void)
{
	auto_dir DIR *dir = opendir("/run");
	struct dirent *ent;

	while (dir && (ent = readdir(dir))) {
		char path[300];
		auto_free char *text = NULL;

		if (strncmp(ent->d_name, "udhcpc", 6) != 0)
			continue;
		snprintf(path, sizeof(path), "/run/%s", ent->d_name);
		text = text_read(path);
		if (text && atoi(text) > 1)
			kill(atoi(text), SIGUSR1);
	}
	return 0;
}

/* Whether all NICs that exist have their new address. */
static int all_addressed(const struct identity *id)
{
	auto_fd int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (sock < 0)
		return errno;
	for (uint32_t i = 0; i < id->n_nics; i++) {
		struct ifreq req = {0};

		if (!find_nic(sock, id->nics[i].mac, req.ifr_name))
			continue;
		if (ioctl(sock, SIOCGIFADDR, &req) < 0)
			return EAGAIN;
	}
	return 0;
}

static int apply(struct runner *r, const struct identity *id, const char **ret_what)
{
	int error = 0;

	if (!error && id->flags & WIRE_IDENTITY_RANDOM) {
		*ret_what = "randomness";
		error = add_randomness(id->random, id->n_random);
	}
	if (!error && id->flags & WIRE_IDENTITY_CLOCK) {
		*ret_what = "clock";
		error = set_clock(id->now_ns);
	}
	if (!error && id->flags & WIRE_IDENTITY_NICS) {
		*ret_what = "network interfaces";
		error = set_nics(id);
	}
	if (!error && id->flags & WIRE_IDENTITY_HOSTNAME) {
		*ret_what = "hostname";
		error = set_hostname(id->hostname);
	}
	if (!error && id->flags & WIRE_IDENTITY_MACHINE) {
		*ret_what = "machine id";
		error = set_machine_id(id->machine_id);
	}
	if (!error && id->flags & WIRE_IDENTITY_MACHINE) {
		*ret_what = "SSH host keys";
		error = hostkeys_renew(r, id);
	}
	if (!error && id->flags & WIRE_IDENTITY_RENEW) {
		*ret_what = "addresses";
		error = renew_leases();
	}
	if (!error && id->flags & WIRE_IDENTITY_ADDRESSED) {
		*ret_what = "addresses";
		error = all_addressed(id);
	}
	return error;
}

bool identity_handle(struct runner *r, const struct wire_msg *m, const struct frame *f)
{
	struct file_done done = {.id = m->id, .what = ""};
	struct identity id;

	if (!identity_parse(m, f, &id))
		return false;
	/* A runner on stdin and stdout is not alone in a VM. */
	done.error = r->uplink.is_port ? apply(r, &id, &done.what) : EPERM;
	file_done(r, &done);
	return true;
}
