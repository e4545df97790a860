/*
 * spec.h - the sandbox spec: what a client asks for, checked and with all defaults filled in.
 *
 * Plain data, never changed after spec_parse, so any number of threads may read one. What a driver
 * cannot do it refuses itself, with spec_err() or spec_unsupported().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "spec/net-addr.h"
#include "util/err.h"

#define SPEC_VMS_MAX      64
#define SPEC_NICS_MAX     32
#define SPEC_VNETS_MAX    64
#define SPEC_FILES_MAX    256
#define SPEC_FORWARDS_MAX 64
#define SPEC_NO_VNET      SIZE_MAX
#define SPEC_AUTO_ALIAS   "default" /* the alias of the one network of "networks": "auto" */
#define SPEC_DEFAULT_NAME "default" /* for the first sandbox VM only */

enum spec_driver { SPEC_DRIVER_QEMU, SPEC_DRIVER_PROXMOX, SPEC_DRIVER_VAGRANT };
#define SPEC_DRIVERS 3

enum spec_source {
	SPEC_SOURCE_NONE, /* vagrant only: the Vagrantfile says what the machine is made of */
	SPEC_SOURCE_IMAGE,
	SPEC_SOURCE_BUILT_IN,
	SPEC_SOURCE_OVA,
	SPEC_SOURCE_TEMPLATE_TAG,
	SPEC_SOURCE_OCI,
	SPEC_SOURCE_DOCKERFILE,
};

enum spec_disk { SPEC_DISK_DEFAULT, SPEC_DISK_VIRTIO, SPEC_DISK_SCSI, SPEC_DISK_IDE };
enum spec_nic { SPEC_NIC_DEFAULT, SPEC_NIC_VIRTIO, SPEC_NIC_E1000 };
enum spec_vga { SPEC_VGA_NONE, SPEC_VGA_STD };

enum spec_os {
	SPEC_OS_L24,
	SPEC_OS_L26,
	SPEC_OS_OTHER,
	SPEC_OS_SOLARIS,
	SPEC_OS_W2K,
	SPEC_OS_W2K3,
	SPEC_OS_W2K8,
	SPEC_OS_WIN7,
	SPEC_OS_WIN8,
	SPEC_OS_WIN10,
	SPEC_OS_WIN11,
	SPEC_OS_WVISTA,
	SPEC_OS_WXP,
};

enum spec_net_mode {
	SPEC_NET_AUTO,     /* one isolated network, made by the driver: vnets[0], no subnets */
	SPEC_NET_NONE,     /* no network, no NICs */
	SPEC_NET_EXISTING, /* proxmox only: NICs name vnets that are on the server already */
	SPEC_NET_VNETS,    /* the vnets of the spec */
};

/* A VM waits until another is in this state. Without a healthcheck, a VM is healthy when it is
 * ready. */
enum spec_condition { SPEC_UNTIL_HEALTHY, SPEC_UNTIL_STARTED, SPEC_UNTIL_COMPLETED };

enum spec_restart {
	SPEC_RESTART_NO,
	SPEC_RESTART_ALWAYS,
	SPEC_RESTART_ON_FAILURE,
	SPEC_RESTART_UNLESS_STOPPED,
};

enum spec_health { SPEC_HEALTH_NONE, SPEC_HEALTH_TEST };

enum spec_egress { SPEC_EGRESS_DENY, SPEC_EGRESS_OPEN, SPEC_EGRESS_ALLOW };

/* A container image that is built when it is missing, or when what it is made of has changed. */
struct dockerfile_spec {
	char *context; /* absolute path of a directory on the daemon's machine */
	char *file;    /* relative to context, or absolute */
	char *target;  /* a stage; NULL: the last */
	json_t *args;  /* object of texts, never NULL */
};

/* The member that belongs to kind is set, the others are NULL. */
struct source_spec {
	enum spec_source kind;
	char *image;        /* a name in the image store, or the start of a digest */
	char *built_in;     /* "debian12", "tiny", ... */
	char *ova;          /* absolute path on the daemon's machine */
	char *template_tag; /* the tag of a template on the server */
	char *oci;          /* a container image of a registry: "debian:12" */
	struct dockerfile_spec *dockerfile;
};

struct nic_spec {
	char *vnet;        /* the alias */
	size_t vnet_index; /* in networks.vnets; SPEC_NO_VNET with SPEC_NET_EXISTING */
	struct mac_addr mac;
	uint32_t ipv4;     /* reserved for this MAC; 0: whatever DHCP gives */
	unsigned vlan_tag; /* 0: none */
};

/* Seconds, except retries. */
struct healthcheck_spec {
	enum spec_health kind; /* after spec_parse always SPEC_HEALTH_TEST */
	char **test;           /* argv, not NULL-terminated: n_test strings */
	size_t n_test;
	double interval, start_period;
	unsigned timeout, retries;
};

struct cloud_init_spec {
	char *user_data, *meta_data, *network_config; /* each may be NULL */
};

/* A file that is put onto the disk before the VM boots. Exactly one of the first three is set. */
struct file_spec {
	char *content;        /* its text */
	char *content_base64; /* its bytes */
	char *host_file;      /* absolute path on the daemon's machine */
	char *path;           /* in the guest: absolute, without "." and ".." */
	char *mode;           /* octal digits */
	char *owner;          /* "UID:GID" */
};

struct depends_spec {
	char *vm;
	enum spec_condition condition;
};

struct tmpfs_spec {
	char *path;
	unsigned size_mb; /* 0: half of the memory */
	char *mode;       /* octal digits; NULL: 1777 */
};

/* A file or directory of the host, a copy of which is in the VM when it boots. */
struct bind_spec {
	char *host; /* absolute path on the daemon's machine */
	char *path; /* in the guest */
	bool read_only;
};

/* How the one service of a VM made of a container image runs. NULL and "not given": as the image
 * says. */
struct service_spec {
	char *name; /* never NULL after spec_parse; commands and DNS know the VM by it, too */
	char **entrypoint, **command;
	size_t n_entrypoint, n_command;
	bool entrypoint_given, command_given; /* an empty list is given as well */
	json_t *environment;                  /* object of texts, never NULL */
	char *working_dir;
	char *user; /* "NAME", "UID", "NAME:GROUP", "UID:GID" */
	enum spec_restart restart;
	unsigned restart_max; /* of on-failure; 0: no limit */
	unsigned shm_size_mb;
	struct tmpfs_spec *tmpfs;
	size_t n_tmpfs;
	char *hostname;      /* NULL: the service's name, with "-" for "_" */
	json_t *extra_hosts; /* object: name -> an IPv4 address, or "gateway"; never NULL */
	struct bind_spec *binds;
	size_t n_binds;
	char **volumes; /* directories that are made where they are missing */
	size_t n_volumes;
	json_t *sysctls; /* object of texts, never NULL */
	json_t *ulimits; /* object: name -> "SOFT:HARD" or "BOTH"; -1 is no limit; never NULL */
};

/* A TCP port of 127.0.0.1 that leads to one of the VM. */
struct forward_spec {
	unsigned port, host_port; /* host_port 0: any that is free */
};

struct vm_spec {
	char *name;
	struct source_spec source;
	unsigned ram_mb, vcpus;
	unsigned disk_gb; /* grow the disk to this; 0: as the image is */
	struct nic_spec *nics;
	size_t n_nics;
	bool nics_given; /* false: those of the template or Vagrantfile stay; then n_nics is 0 */
	bool is_sandbox, uefi_boot, tablet, firewall, await_before_next_vm, warm;
	enum spec_disk disk_controller;
	enum spec_nic nic_controller;
	enum spec_os os_type;
	enum spec_vga vga;
	char *cpu;   /* NULL: the driver's choice */
	char *cdrom; /* an ISO image: absolute path on the daemon's machine; NULL: none */
	struct depends_spec *depends_on;
	size_t n_depends_on;
	struct healthcheck_spec *healthcheck; /* NULL: none, or the container image's own */
	bool no_healthcheck;                  /* not even that of the container image */
	unsigned ready_port;                  /* TCP; 0: none */
	char *user;                           /* name or decimal uid; NULL: the image's default */
	struct cloud_init_spec *cloud_init;   /* NULL: none */
	struct file_spec *files;
	size_t n_files;
	struct service_spec *service; /* NULL: none, or as the container image says */
	struct forward_spec *forwards;
	size_t n_forwards;
	char **aliases; /* more names of the VM in DNS, on all its vnets */
	size_t n_aliases;
	json_t *native; /* object, never NULL; its meaning is the driver's */
};

struct dhcp_range {
	uint32_t start, end; /* both belong to it */
};

struct subnet_spec {
	struct ipv4_net cidr;
	uint32_t gateway; /* 0: none, and DHCP announces no route */
	bool snat;
	struct dhcp_range *dhcp_ranges;
	size_t n_dhcp_ranges;
};

/* What may be reached outside; only with SPEC_EGRESS_ALLOW. */
struct egress_allow {
	char **domains; /* "example.org", or "*.example.org" for all below it */
	size_t n_domains;
	struct ipv4_net *cidrs;
	size_t n_cidrs;
	unsigned *ports; /* none: all ports of the above */
	size_t n_ports;
};

struct egress_spec {
	enum spec_egress mode;
	struct egress_allow allow;
};

struct vnet_spec {
	char *alias;
	bool vlan_aware, dhcp;
	char *capture;    /* a file for everything that goes over it; NULL: none */
	char *gateway_vm; /* the VM that DHCP names as the way out; NULL: none */
	struct egress_spec egress;
	struct subnet_spec *subnets;
	size_t n_subnets;
};

struct networks_spec {
	enum spec_net_mode mode;
	struct vnet_spec *vnets;
	size_t n_vnets;
	bool dhcp; /* the default of the vnets' dhcp, already applied to them */
};

struct sandbox_spec {
	enum spec_driver driver;
	char *pool; /* NULL: any */
	struct vm_spec *vms;
	size_t n_vms;
	struct networks_spec networks;
	json_t *native; /* object, never NULL: driver settings for the sandbox as a whole */
};

/* Everything that does not depend on a driver or on this machine is checked here. */
int spec_parse(const json_t *j, struct sandbox_spec **ret, struct err *e);
void spec_free(struct sandbox_spec *s); /* NULL is fine */
static inline void auto_specp(struct sandbox_spec **s)
{
	spec_free(*s);
}
#define auto_spec __attribute__((cleanup(auto_specp)))

/* Normalised: every member present. Parsing it gives an equal spec. */
int spec_to_json(const struct sandbox_spec *s, json_t **ret, struct err *e);
/* JSON Schema (draft 2020-12) of what spec_parse accepts, made from the table that it reads by. The
 * caller frees. */
int spec_schema(char **ret, struct err *e);

/* Names as they stand in the spec; NULL for a _DEFAULT. */
const char *spec_driver_name(enum spec_driver d);
const char *spec_os_name(enum spec_os os);
const char *spec_disk_name(enum spec_disk d);
bool spec_os_is_windows(enum spec_os os);
/* Finds an OS type by its name. */
int spec_os_find(const char *name, enum spec_os *ret, struct err *e);
/* The user that commands run as if the client names none. user: of the VM or image, or NULL. */
static inline const char *spec_user(const char *user, bool windows)
{
	return user ? user : windows ? "SYSTEM" : "root";
}

/* By the name of the VM or of its service. Case-insensitive, as host names are; NULL if there is
 * none. */
const struct vm_spec *spec_find_vm(const struct sandbox_spec *s, const char *name);
/* The VM that a command without a VM name goes to: the first sandbox VM. */
const struct vm_spec *spec_default_vm(const struct sandbox_spec *s);
/* Whether vms[a] may start only when vms[b] is ready: by depends_on or by await_before_next_vm. */
bool spec_waits_for(const struct sandbox_spec *s, size_t a, size_t b);
/* Whether any VM waits for vms[vm]. */
bool spec_is_waited_for(const struct sandbox_spec *s, size_t vm);
/*
 * The order in which to start the VMs: as listed, but each after those it waits for. order has
 * room for n_vms indices.
 */
void spec_start_order(const struct sandbox_spec *s, size_t *order);

/*
 * Refuses whatever only VMs made of container images have, for a driver that makes none: why ends
 * the message.
 */
int spec_refuse_containers(const struct vm_spec *vm, size_t i, const char *why, struct err *e);

/*
 * An error at a place: spec_err(e, SPEC_PLACE("vms[%zu].cpu", i), "no CPU model %s", cpu) says
 * "vms[0].cpu: no CPU model foo". Both return -1.
 */
#define SPEC_PLACE_MAX          160
#define SPEC_PLACE(...)         spec_place((char[SPEC_PLACE_MAX]){0}, __VA_ARGS__)
#define spec_err(e, place, ...) spec_err_at(e, ERR_INVALID, __FILE__, __LINE__, place, __VA_ARGS__)
#define spec_unsupported(e, place, ...)                                                            \
	spec_err_at(e, ERR_UNSUPPORTED, __FILE__, __LINE__, place, __VA_ARGS__)
PRINTF_LIKE(2, 3) const char *spec_place(char buf[static SPEC_PLACE_MAX], const char *fmt, ...);
PRINTF_LIKE(6, 7)
int spec_err_at(struct err *e, enum err_kind kind, const char *file, int line, const char *place,
	const char *fmt, ...);
