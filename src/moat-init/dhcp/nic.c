#include "moat-init/dhcp/nic.h"

#include <dirent.h>
#include <errno.h>
#include <net/ethernet.h>
#include <net/if_arp.h>
#include <net/route.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/auto.h"

#define NETS "/sys/class/net"
enum { CLIENT_PORT = 68 };

/* From linux/netlink.h and linux/rtnetlink.h, which musl's headers do not have. */
struct netlink_address {
	sa_family_t family;
	uint16_t pad;
	uint32_t pid, groups;
};
enum { ROUTE_FAMILY = 0, GROUP_LINK = 1 };

static struct ifreq request(const char *name)
{
	struct ifreq req = {0};

	snprintf(req.ifr_name, sizeof(req.ifr_name), "%.*s", IFNAMSIZ - 1, name);
	return req;
}

static bool is_hardware(const char *name)
{
	char path[300];

	snprintf(path, sizeof(path), NETS "/%.64s/device", name);
	return access(path, F_OK) == 0;
}

static bool look_at(int sock, const char *name, struct nic_state *ret)
{
	struct ifreq req = request(name);

	*ret = (struct nic_state){0};
	memcpy(ret->name, req.ifr_name, sizeof(ret->name));
	if (ioctl(sock, SIOCGIFHWADDR, &req) < 0 || req.ifr_hwaddr.sa_family != ARPHRD_ETHER)
		return false;
	memcpy(ret->mac, req.ifr_hwaddr.sa_data, sizeof(ret->mac));
	if (ioctl(sock, SIOCGIFFLAGS, &req) < 0)
		return false;
	ret->up = req.ifr_flags & IFF_UP;
	ret->plugged = ret->up && req.ifr_flags & IFF_RUNNING;
	if (ioctl(sock, SIOCGIFINDEX, &req) < 0)
		return false;
	ret->index = req.ifr_ifindex;
	return true;
}

unsigned nics_find(int sock, struct nic_state ret[NICS_MAX])
{
	auto_dir DIR *dir = opendir(NETS);
	struct dirent *entry;
	unsigned n = 0;

	while (dir && n < NICS_MAX && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && strlen(entry->d_name) < IFNAMSIZ &&
			is_hardware(entry->d_name) && look_at(sock, entry->d_name, &ret[n]))
			n++;
	return n;
}

void nic_up(int sock, const char *name)
{
	struct ifreq req = request(name);

	if (ioctl(sock, SIOCGIFFLAGS, &req) < 0)
		return;
	req.ifr_flags |= IFF_UP;
	ioctl(sock, SIOCSIFFLAGS, &req);
}

static struct sockaddr as_sockaddr(uint32_t address)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = address};
	struct sockaddr ret;

	memcpy(&ret, &in, sizeof(ret));
	return ret;
}

int nic_address(int sock, const char *name, uint32_t address, uint32_t mask)
{
	struct ifreq req = request(name);

	req.ifr_addr = as_sockaddr(address);
	if (ioctl(sock, SIOCSIFADDR, &req) < 0)
		return errno;
	req.ifr_netmask = as_sockaddr(mask);
	return address && ioctl(sock, SIOCSIFNETMASK, &req) < 0 ? errno : 0;
}

int nic_default_route(int sock, const char *name, uint32_t router, bool add)
{
	char dev[IFNAMSIZ];
	struct rtentry route = {.rt_dst = as_sockaddr(0),
		.rt_genmask = as_sockaddr(0),
		.rt_gateway = as_sockaddr(router),
		.rt_flags = RTF_UP | RTF_GATEWAY,
		.rt_dev = dev};

	snprintf(dev, sizeof(dev), "%.*s", IFNAMSIZ - 1, name);
	return ioctl(sock, add ? SIOCADDRT : SIOCDELRT, &route) < 0 ? errno : 0;
}

int nic_socket(const char *name)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(CLIENT_PORT)};

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
		setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on)) == 0 &&
		setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, (socklen_t)strlen(name) + 1) ==
			0 &&
		bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
		return fd;
	close(fd);
	return -1;
}

static uint16_t ip_checksum(const void *header, size_t len)
{
	const uint8_t *p = header;
	uint32_t sum = 0;

	for (size_t i = 0; i + 1 < len; i += 2)
		sum += (uint32_t)p[i] << 8 | p[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

int nic_broadcast(int index, const void *data, size_t len)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_IP),
		.sll_ifindex = index,
		.sll_halen = 6,
		.sll_addr = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
	struct udphdr udp = {.source = htons(CLIENT_PORT),
		.dest = htons(SERVER_PORT),
		.len = htons((uint16_t)(sizeof(udp) + len))}; /* checksum 0: there is none */
	struct iphdr ip = {.version = 4,
		.ihl = sizeof(ip) / 4,
		.ttl = 64,
		.protocol = IPPROTO_UDP,
		.tot_len = htons((uint16_t)(sizeof(ip) + sizeof(udp) + len)),
		.daddr = INADDR_BROADCAST};
	struct iovec parts[] = {{&ip, sizeof(ip)}, {&udp, sizeof(udp)}, {(void *)data, len}};
	struct msghdr message = {
		.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = parts, .msg_iovlen = 3};
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	ssize_t sent;

	if (fd < 0)
		return -1;
	ip.check = htons(ip_checksum(&ip, sizeof(ip)));
	sent = sendmsg(fd, &message, 0);
	close(fd);
	return sent < 0 ? -1 : 0;
}

int nic_events(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, ROUTE_FAMILY);
	struct netlink_address at = {.family = AF_NETLINK, .groups = GROUP_LINK};

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
		return fd;
	close(fd);
	return -1;
}
