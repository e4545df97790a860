#include "spec/fields.h"

#include <string.h>

#include "spec/spec.h"
#include "util/auto.h"

#define CHOICES(...)                                                                               \
	{                                                                                          \
		.list = (const char *const[]){__VA_ARGS__},                                        \
		.n = ARRAY_LEN(((const char *const[]){__VA_ARGS__})),                              \
	}

/* Each in the order of its enum in spec.h. */
const struct choices spec_driver_choices = CHOICES("qemu", "proxmox", "vagrant");
const struct choices spec_disk_choices = CHOICES(NULL, "virtio", "scsi", "ide");
static const struct choices nic_choices = CHOICES(NULL, "virtio", "e1000");
const struct choices spec_os_choices = CHOICES("l24", "l26", "other", "solaris", "w2k", "w2k3",
	"w2k8", "win7", "win8", "win10", "win11", "wvista", "wxp");
static const struct choices vga_choices = CHOICES("none", "std");
static const struct choices network_choices = CHOICES("auto", "none", NULL, NULL);
static const struct choices egress_choices = CHOICES("deny", "open", NULL);
static const struct choices built_in_choices =
	CHOICES("ubuntu24.04", "debian12", "debian13", "kali", "kali2025.4", "kali2025.3", "tiny");

static const struct choices health_choices = CHOICES("none", NULL);
static const struct choices condition_choices = CHOICES("healthy", "started", "completed");
static const struct choices restart_choices =
	CHOICES("no", "always", "on-failure", "unless-stopped");

#define OCTET "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"

static const struct text_class host_text = {
	"a host name (letters, digits and hyphens; dots between its parts)",
	"^(" LABEL "\\.)*" LABEL "$",
};
static const struct text_class domain_text = {
	"a domain name, with or without \"*.\" before it",
	"^(\\*\\.)?(" LABEL "\\.)*" LABEL "$",
};
static const struct text_class name_text = {
	"a name (letters, digits and any of . _ : + -, a letter or digit first)",
	"^[A-Za-z0-9][A-Za-z0-9._:+-]*$",
};
static const struct text_class cpu_text = {
	"a CPU model (letters, digits and any of _ . , + = -)",
	"^[A-Za-z0-9_.,+=-]+$",
};
static const struct text_class user_text = {
	"a user name (letters, digits and any of _ . - @)",
	"^[A-Za-z0-9_][A-Za-z0-9_.@-]*$",
};
static const struct text_class path_text = {"an absolute path", "^/", .free = true};
static const struct text_class any_line = {"one line of text", NULL, .free = true};
static const struct text_class any_text = {"text", NULL, .free = true, .many_lines = true};

static const struct text_class base64_text = {"base64", "^[A-Za-z0-9+/]*=?=?$"};
static const struct text_class mode_text = {"permissions in octal digits", "^[0-7]+$"};
static const struct text_class owner_text = {
	"numbers of a user and a group, \"UID:GID\"", "^[0-9]{1,10}:[0-9]{1,10}$"};

static const struct text_class alias_text = {
	"a name of a service (letters, digits and any of _ . -)",
	"^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$",
};
static const struct text_class oci_text = {
	"a name of a container image (such as debian:12 or registry.example.org/team/tool:1)",
	"^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$",
};
static const struct text_class run_as_text = {
	"a user, or a user and a group with \":\" between them",
	"^[A-Za-z0-9_][A-Za-z0-9_.@-]*(:[A-Za-z0-9_][A-Za-z0-9_.@-]*)?$",
};
static const struct text_class variable_text = {
	"the name of a variable (without \"=\")", "^[^=]+$", .free = true};
static const struct text_class sysctl_text = {
	"a kernel parameter (such as net.core.somaxconn)", "^[A-Za-z0-9_][A-Za-z0-9_./-]*$"};
static const struct text_class ulimit_text = {"a resource limit (such as nofile)", "^[a-z]+$"};
static const struct text_class limits_text = {
	"a limit, or a soft and a hard one with \":\" between them; -1 is none",
	"^(-1|[0-9]{1,18})(:(-1|[0-9]{1,18}))?$"};
static const struct text_class host_address_text = {
	"an IPv4 address or \"gateway\"", "^(gateway|" OCTET "(\\." OCTET "){3})$"};

#define FIELDS(...)                                                                                \
	.fields = (const struct field[]){__VA_ARGS__},                                             \
	.n_fields = ARRAY_LEN(((const struct field[]){__VA_ARGS__}))
#define AT(type, member) .at = offsetof(struct type, member)
#define LIST_AT(type, member)                                                                      \
	.kind = FIELD_LIST, AT(type, member), .count_at = offsetof(struct type, n_##member)
#define TEXT_ITEM(class_, max_)                                                                    \
	.item = &(const struct field)                                                              \
	{                                                                                          \
		.kind = FIELD_TEXT, .text = &(class_), .min = 1, .max = (max_)                     \
	}
#define PART_ITEM(shape_)                                                                          \
	.item = &(const struct field)                                                              \
	{                                                                                          \
		.kind = FIELD_PART, .shape = &(shape_)                                             \
	}

#define TEXT_MAP(key_, text_, max_)                                                                \
	.kind = FIELD_TEXT_MAP, .preset = "{}", .max = (max_),                                     \
	.key = &(const struct field){.kind = FIELD_TEXT, .text = &(key_), .min = 1, .max = 256},   \
	.item = &(const struct field)                                                              \
	{                                                                                          \
		.kind = FIELD_TEXT, .text = &(text_), .max = 131072                                \
	}

/* clang-format off */
static const struct shape range_shape = {
	.title = "dhcp_range", .help = "Addresses that DHCP may give out, from start to end.",
	.size = sizeof(struct dhcp_range),
	FIELDS({"start", FIELD_IPV4, true, AT(dhcp_range, start), .help = "The first address."},
		{"end", FIELD_IPV4, true, AT(dhcp_range, end), .help = "The last address."}),
};

static const struct shape subnet_shape = {
	.title = "subnet", .help = "An IPv4 network on a virtual network.",
	.size = sizeof(struct subnet_spec),
	FIELDS({"cidr", FIELD_IPV4_NET, true, AT(subnet_spec, cidr),
			.help = "The network, such as 10.0.0.0/24."},
		{"gateway", FIELD_IPV4, AT(subnet_spec, gateway),
			.help = "The router's address, announced by DHCP. Without it the subnet "
				"has no way out."},
		{"snat", FIELD_BOOL, .preset = "false", AT(subnet_spec, snat),
			.help = "Translate the addresses of outgoing connections, so that the "
				"outside can answer."},
		{"dhcp_ranges", LIST_AT(subnet_spec, dhcp_ranges), .preset = "[]", .max = 64,
			PART_ITEM(range_shape),
			.help = "Without any, DHCP gives addresses only to NICs with an ipv4 of "
				"their own."}),
};

static const struct shape allow_shape = {
	.title = "egress_allow", .help = "What may be reached outside. At least one domain or "
		"network.",
	.size = sizeof(struct egress_allow),
	FIELDS({"domains", LIST_AT(egress_allow, domains), .preset = "[]", .max = 256,
			TEXT_ITEM(domain_text, 253),
			.help = "Names; *.example.org stands for all names below example.org."},
		{"cidrs", LIST_AT(egress_allow, cidrs), .preset = "[]", .max = 256,
			.item = &(const struct field){.kind = FIELD_IPV4_NET},
			.help = "IPv4 networks."},
		{"ports", LIST_AT(egress_allow, ports), .preset = "[]", .max = 256,
			.item = &(const struct field){.kind = FIELD_WHOLE, .min = 1, .max = 65535},
			.help = "Only these ports of them; none listed: all."}),
};

static const struct shape egress_shape = {
	.title = "egress", .help = "What the VMs of this network may reach outside of the sandbox.",
	.size = sizeof(struct egress_spec),
	.choices = &egress_choices, .object_choice = SPEC_EGRESS_ALLOW,
	FIELDS({"allow", FIELD_PART, true, AT(egress_spec, allow), .shape = &allow_shape}),
};

static const struct shape vnet_shape = {
	.title = "vnet", .help = "A virtual network: a switch that only this sandbox is plugged "
		"into.",
	.size = sizeof(struct vnet_spec),
	FIELDS({"alias", FIELD_TEXT, true, AT(vnet_spec, alias), .min = 1, .max = 256,
			.text = &any_line,
			.help = "The name by which NICs refer to it."},
		{"vlan_aware", FIELD_BOOL, .preset = "false", AT(vnet_spec, vlan_aware),
			.help = "Let VLAN tags through, and NICs have a vlan_tag."},
		{"dhcp", FIELD_BOOL, AT(vnet_spec, dhcp),
			.help = "Serve DHCP and DNS here. Absent: as networks.dhcp says."},
		{"capture", FIELD_TEXT, AT(vnet_spec, capture), .min = 2, .max = 4000,
			.text = &path_text,
			.help = "A new file on the daemon's machine for everything that goes over "
				"it, as pcap; {id} in its name becomes the sandbox's."},
		{"gateway_vm", FIELD_TEXT, AT(vnet_spec, gateway_vm), .min = 1, .max = 63,
			.text = &host_text,
			.help = "The VM, a router, that DHCP names as the default route."},
		{"egress", FIELD_PART, AT(vnet_spec, egress), .shape = &egress_shape,
			.help = "Absent: \"deny\". Anything else needs a subnet with snat."},
		{"subnets", LIST_AT(vnet_spec, subnets), .preset = "[]", .max = 16,
			PART_ITEM(subnet_shape),
			.help = "None: a bare switch; the VMs sort out addresses themselves."}),
};

static const struct shape networks_shape = {
	.title = "networks", .size = sizeof(struct networks_spec),
	.help = "\"auto\": one isolated network for all VMs. \"none\": no network. An object: "
		"these networks. "
		"null: none; with the proxmox driver, the networks that are on the server.",
	.choices = &network_choices, .object_choice = SPEC_NET_VNETS,
	.null_stands = true, .null_choice = SPEC_NET_EXISTING,
	FIELDS({"vnets", LIST_AT(networks_spec, vnets), .required = true, .min = 1,
			.max = SPEC_VNETS_MAX,
			PART_ITEM(vnet_shape),
			.help = "The virtual networks; the first is where VMs go by default."},
		{"dhcp", FIELD_BOOL, .preset = "true", AT(networks_spec, dhcp),
			.help = "The default for the vnets' dhcp."}),
};

static const struct shape dockerfile_shape = {
	.title = "dockerfile", .size = sizeof(struct dockerfile_spec),
	.help = "A container image that is built from a Dockerfile: when it is missing, and when "
		"what it is made of has changed.",
	FIELDS({"context", FIELD_TEXT, true, AT(dockerfile_spec, context), .min = 1, .max = 4000,
			.text = &path_text,
			.help = "A directory on the daemon's machine: what COPY and ADD see."},
		{"file", FIELD_TEXT, .preset = "\"Dockerfile\"", AT(dockerfile_spec, file),
			.min = 1, .max = 4000, .text = &any_line,
			.help = "The Dockerfile, below context or by its absolute path."},
		{"target", FIELD_TEXT, AT(dockerfile_spec, target), .min = 1, .max = 128,
			.text = &name_text, .help = "The stage to build. Absent: the last."},
		{"args", TEXT_MAP(variable_text, any_text, 256), AT(dockerfile_spec, args),
			.help = "Values of the Dockerfile's ARGs."}),
};

static const struct shape source_shape = {
	.title = "source", .size = sizeof(struct source_spec), .one_member = true,
	.short_for = "image",
	.help = "What the VM's disk is made from: exactly one of these. A text alone names an "
		"image.",
	FIELDS({"image", FIELD_TEXT, AT(source_spec, image), .min = 1, .max = 128,
			.text = &name_text,
			.help = "An image of the store, by name or by the start of its digest."},
		{"built_in", FIELD_TEXT, AT(source_spec, built_in), .min = 1, .max = 64,
			.choices = &built_in_choices,
			.text = &any_line, .help = "A system that moat knows how to get or build."},
		{"ova", FIELD_TEXT, AT(source_spec, ova), .min = 2, .max = 4000, .text = &path_text,
			.help = "An OVA file on the daemon's machine."},
		{"existing_vm_template_tag", FIELD_TEXT, AT(source_spec, template_tag), .min = 1,
			.max = 128,
			.text = &name_text, .help = "The tag of a template on the Proxmox "
				"server."},
		{"oci", FIELD_TEXT, AT(source_spec, oci), .min = 1, .max = 512, .text = &oci_text,
			.help = "A container image of a registry."},
		{"dockerfile", FIELD_OBJECT, AT(source_spec, dockerfile),
			.shape = &dockerfile_shape}),
};

static const struct shape nic_shape = {
	.title = "nic", .help = "A network card.", .size = sizeof(struct nic_spec),
	FIELDS({"vnet", FIELD_TEXT, true, AT(nic_spec, vnet), .min = 1, .max = 256,
			.text = &any_line,
			.help = "The alias of the network that it is plugged into."},
		{"mac", FIELD_MAC, AT(nic_spec, mac), .help = "Absent: moat chooses one."},
		{"ipv4", FIELD_IPV4, AT(nic_spec, ipv4),
			.help = "The address that DHCP always gives to this NIC. Needs mac."},
		{"vlan_tag", FIELD_WHOLE, AT(nic_spec, vlan_tag), .min = 1, .max = 4094,
			.help = "The VLAN that the NIC is in; its network must be vlan_aware."}),
};

static const struct shape health_shape = {
	.title = "healthcheck", .help = "A command that says when the VM is ready: it exits with "
		"0.",
	.size = sizeof(struct healthcheck_spec),
	.choices = &health_choices, .object_choice = SPEC_HEALTH_TEST,
	FIELDS({"test", LIST_AT(healthcheck_spec, test), .required = true, .min = 1, .max = 256,
			.item = &(const struct field){.kind = FIELD_TEXT, .text = &any_text,
			.max = 65536},
			.help = "The program and its arguments; no shell is involved."},
		{"interval", FIELD_NUMBER, .preset = "5", AT(healthcheck_spec, interval),
			.min = 0.1, .max = 3600,
			.help = "Seconds from one try to the next."},
		{"timeout", FIELD_WHOLE, .preset = "30", AT(healthcheck_spec, timeout), .min = 1,
			.max = 3600,
			.help = "Seconds that one try may take."},
		{"retries", FIELD_WHOLE, .preset = "60", AT(healthcheck_spec, retries), .min = 1,
			.max = 10000,
			.help = "Tries that may fail one after another."},
		{"start_period", FIELD_NUMBER, .preset = "0", AT(healthcheck_spec, start_period),
			.max = 86400,
			.help = "Seconds at the start in which failed tries do not count."}),
};

#define CLOUD_TEXT_MAX 262144
static const struct shape cloud_shape = {
	.title = "cloud_init", .help = "Data for cloud-init in the guest, passed on as it is.",
	.size = sizeof(struct cloud_init_spec),
	FIELDS({"user_data", FIELD_TEXT, AT(cloud_init_spec, user_data), .max = CLOUD_TEXT_MAX,
			.text = &any_text},
		{"meta_data", FIELD_TEXT, AT(cloud_init_spec, meta_data), .max = CLOUD_TEXT_MAX,
			.text = &any_text},
		{"network_config", FIELD_TEXT, AT(cloud_init_spec, network_config),
			.max = CLOUD_TEXT_MAX,
			.text = &any_text}),
};

#define CONTENT_MAX 1048576
static const struct shape file_shape = {
	.title = "file", .help = "A file that is put onto the VM's disk before it boots. Exactly one of "
		"content, content_base64 and host_file.",
	.size = sizeof(struct file_spec),
	FIELDS({"path", FIELD_TEXT, true, AT(file_spec, path), .min = 2, .max = 1000,
			.text = &path_text, .help = "Where it goes in the guest."},
		{"content", FIELD_TEXT, AT(file_spec, content), .max = CONTENT_MAX,
			.text = &any_text, .help = "Its text."},
		{"content_base64", FIELD_TEXT, AT(file_spec, content_base64),
			.max = CONTENT_MAX / 3 * 4, .text = &base64_text,
			.help = "Its bytes, in base64."},
		{"host_file", FIELD_TEXT, AT(file_spec, host_file), .min = 2, .max = 4000,
			.text = &path_text, .help = "A file on the daemon's machine to copy."},
		{"mode", FIELD_TEXT, .preset = "\"0644\"", AT(file_spec, mode), .min = 3, .max = 4,
			.text = &mode_text, .help = "Its permissions, as octal digits in quotes."},
		{"owner", FIELD_TEXT, .preset = "\"0:0\"", AT(file_spec, owner), .min = 3,
			.max = 21, .text = &owner_text,
			.help = "The numbers of its user and group: \"1000:1000\"."}),
};

static const struct shape depends_shape = {
	.title = "depends_on", .help = "A VM to wait for.", .size = sizeof(struct depends_spec),
	.short_for = "vm",
	FIELDS({"vm", FIELD_TEXT, true, AT(depends_spec, vm), .min = 1, .max = 63,
			.text = &host_text, .help = "Its name."},
		{"condition", FIELD_CHOICE, .preset = "\"healthy\"", AT(depends_spec, condition),
			.choices = &condition_choices,
			.help = "healthy: it is ready, and its healthcheck has passed. started: "
				"its service has been started. completed: its service has ended "
				"with exit code 0."}),
};

static const struct shape forward_shape = {
	.title = "forward", .help = "A TCP port of 127.0.0.1 that leads to one of the VM.",
	.size = sizeof(struct forward_spec),
	FIELDS({"port", FIELD_WHOLE, true, AT(forward_spec, port), .min = 1, .max = 65535,
			.help = "The port of the VM."},
		{"host_port", FIELD_WHOLE, .preset = "0", AT(forward_spec, host_port), .max = 65535,
			.help = "The port of this machine; 0: any that is free."}),
};

static const struct shape tmpfs_shape = {
	.title = "tmpfs", .help = "A file system in memory.", .size = sizeof(struct tmpfs_spec),
	.short_for = "path",
	FIELDS({"path", FIELD_TEXT, true, AT(tmpfs_spec, path), .min = 2, .max = 1000,
			.text = &path_text, .help = "Where it is mounted."},
		{"size_mb", FIELD_WHOLE, AT(tmpfs_spec, size_mb), .min = 1, .max = 4194304,
			.help = "Its size in MiB. Absent: half of the memory."},
		{"mode", FIELD_TEXT, AT(tmpfs_spec, mode), .min = 3, .max = 4, .text = &mode_text,
			.help = "Permissions of its root, as octal digits in quotes. Absent: "
				"1777."}),
};

static const struct shape bind_shape = {
	.title = "bind", .size = sizeof(struct bind_spec),
	.help = "A file or directory of the daemon's machine. The VM has a copy: what it writes "
		"there stays in it.",
	FIELDS({"host", FIELD_TEXT, true, AT(bind_spec, host), .min = 1, .max = 4000,
			.text = &path_text, .help = "Its path on the daemon's machine."},
		{"path", FIELD_TEXT, true, AT(bind_spec, path), .min = 2, .max = 1000,
			.text = &path_text, .help = "Where the copy is in the VM."},
		{"read_only", FIELD_BOOL, .preset = "false", AT(bind_spec, read_only),
			.help = "The VM cannot change the copy."}),
};

static const struct shape service_shape = {
	.title = "service", .size = sizeof(struct service_spec),
	.help = "How the service of a VM made of a container image runs. What is absent is as the "
		"image says.",
	FIELDS({"name", FIELD_TEXT, AT(service_spec, name), .min = 1, .max = 63,
			.text = &alias_text,
			.help = "Commands and DNS know the VM by this name, too. Absent: the VM's."},
		{"entrypoint", LIST_AT(service_spec, entrypoint), .max = 1024,
			.given_at = offsetof(struct service_spec, entrypoint_given),
			.item = &(const struct field){.kind = FIELD_TEXT, .text = &any_text,
			.max = 131072},
			.help = "The program and its first arguments. If it is given, the image's "
				"command does not count."},
		{"command", LIST_AT(service_spec, command), .max = 1024,
			.given_at = offsetof(struct service_spec, command_given),
			.item = &(const struct field){.kind = FIELD_TEXT, .text = &any_text,
			.max = 131072},
			.help = "What comes after the entrypoint."},
		{"environment", TEXT_MAP(variable_text, any_text, 1024),
			AT(service_spec, environment),
			.help = "Variables, over those of the image."},
		{"working_dir", FIELD_TEXT, AT(service_spec, working_dir), .min = 1, .max = 4000,
			.text = &path_text, .help = "Where the service and commands start."},
		{"user", FIELD_USER, AT(service_spec, user), .max = 4294967294,
			.text = &run_as_text,
			.help = "Who runs the service and commands: a name or number, \"USER\" or "
				"\"USER:GROUP\"."},
		{"restart", FIELD_CHOICE, .preset = "\"no\"", AT(service_spec, restart),
			.choices = &restart_choices,
			.help = "Whether the service is started again when it has ended."},
		{"restart_max", FIELD_WHOLE, .preset = "0", AT(service_spec, restart_max),
			.max = 10000, .help = "With on-failure: how often at most; 0: no limit."},
		{"shm_size_mb", FIELD_WHOLE, .preset = "64", AT(service_spec, shm_size_mb),
			.min = 1, .max = 4194304, .help = "The size of /dev/shm in MiB."},
		{"tmpfs", LIST_AT(service_spec, tmpfs), .preset = "[]", .max = 64,
			PART_ITEM(tmpfs_shape), .help = "File systems in memory."},
		{"hostname", FIELD_TEXT, AT(service_spec, hostname), .min = 1, .max = 63,
			.text = &host_text,
			.help = "Absent: the name of the service, with \"-\" for \"_\"."},
		{"extra_hosts", TEXT_MAP(alias_text, host_address_text, 256),
			AT(service_spec, extra_hosts),
			.help = "Names for /etc/hosts, each with an IPv4 address, or \"gateway\" "
				"for that of moat in the vnet."},
		{"binds", LIST_AT(service_spec, binds), .preset = "[]", .max = 64,
			PART_ITEM(bind_shape),
			.help = "Files and directories of the daemon's machine, of which the VM "
				"has a copy."},
		{"volumes", LIST_AT(service_spec, volumes), .preset = "[]", .max = 64,
			TEXT_ITEM(path_text, 1000),
			.help = "Directories that are made where the image has none."},
		{"sysctls", TEXT_MAP(sysctl_text, any_line, 64), AT(service_spec, sysctls),
			.help = "Parameters of the VM's kernel."},
		{"ulimits", TEXT_MAP(ulimit_text, limits_text, 64), AT(service_spec, ulimits),
			.help = "Resource limits of the service: \"1024\", or \"1024:4096\" for "
				"soft and hard; -1 is none."}),
};

static const struct shape vm_shape = {
	.title = "vm", .help = "A virtual machine.", .size = sizeof(struct vm_spec),
	FIELDS({"name", FIELD_TEXT, AT(vm_spec, name), .min = 1, .max = 63, .text = &host_text,
			.help = "A host name. Only the first sandbox VM may go without: it is "
				"\"default\"."},
		{"source", FIELD_PART, AT(vm_spec, source), .shape = &source_shape,
			.help = "Needed, except with the vagrant driver."},
		{"ram_mb", FIELD_WHOLE, AT(vm_spec, ram_mb), .min = 64, .max = 4194304,
			.help = "Memory in MiB. Absent: 2048, and 512 with service, source.oci or "
				"source.dockerfile."},
		{"vcpus", FIELD_WHOLE, .preset = "2", AT(vm_spec, vcpus), .min = 1, .max = 512,
			.help = "Virtual processors."},
		{"disk_gb", FIELD_WHOLE, AT(vm_spec, disk_gb), .min = 1, .max = 65536,
			.help = "Grow the disk to this many GiB. Absent: as large as the image."},
		{"cdrom", FIELD_TEXT, AT(vm_spec, cdrom), .min = 2, .max = 4000,
			.text = &path_text,
			.help = "A CD: an ISO image on the daemon's machine. The VM boots from it "
				"if its disk is empty, and nobody waits until it answers."},
		{"nics", LIST_AT(vm_spec, nics), .given_at = offsetof(struct vm_spec, nics_given),
			.max = SPEC_NICS_MAX, PART_ITEM(nic_shape),
			.help = "Absent or null: one NIC on the first network (with a template: "
				"its own NICs). []: none."},
		{"is_sandbox", FIELD_BOOL, .preset = "true", AT(vm_spec, is_sandbox),
			.help = "Commands can be run in it. False: it only runs."},
		{"uefi_boot", FIELD_BOOL, .preset = "false", AT(vm_spec, uefi_boot),
			.help = "Start with UEFI, not BIOS."},
		{"disk_controller", FIELD_CHOICE, AT(vm_spec, disk_controller),
			.choices = &spec_disk_choices,
			.help = "Absent: the driver's choice."},
		{"nic_controller", FIELD_CHOICE, AT(vm_spec, nic_controller),
			.choices = &nic_choices,
			.help = "Absent: the driver's choice."},
		{"os_type", FIELD_CHOICE, .preset = "\"l26\"", AT(vm_spec, os_type),
			.choices = &spec_os_choices,
			.help = "The kind of system, in Proxmox's names; l26 is any Linux of "
				"today."},
		{"cpu", FIELD_TEXT, AT(vm_spec, cpu), .min = 1, .max = 256, .text = &cpu_text,
			.help = "The CPU model. Absent: the driver's choice."},
		{"vga", FIELD_CHOICE, .preset = "\"none\"", AT(vm_spec, vga), .choices = &vga_choices,
			.help = "A graphics card; screenshots need \"std\". With \"none\" a "
				"Proxmox template keeps its own."},
		{"tablet", FIELD_BOOL, AT(vm_spec, tablet),
			.help = "A USB tablet as the pointer. Absent: true with a graphics card, "
				"else false. With false a Proxmox template keeps its own."},
		{"firewall", FIELD_BOOL, .preset = "false", AT(vm_spec, firewall),
			.help = "Turn on the Proxmox firewall on its NICs."},
		{"await_before_next_vm", FIELD_BOOL, .preset = "false",
			AT(vm_spec, await_before_next_vm),
			.help = "Start the VMs listed after it only when it is ready."},
		{"depends_on", LIST_AT(vm_spec, depends_on), .preset = "[]",
			.max = SPEC_VMS_MAX - 1, PART_ITEM(depends_shape),
			.help = "VMs that must be ready before this one starts, by their names."},
		{"healthcheck", FIELD_OBJECT, AT(vm_spec, healthcheck), .shape = &health_shape,
			.help = "Absent: that of the container image, if it has one; otherwise the "
				"VM is ready as soon as it answers. \"none\": none at all."},
		{"ready_port", FIELD_WHOLE, AT(vm_spec, ready_port), .min = 1, .max = 65535,
			.help = "It is ready when it takes TCP connections there; for VMs that "
				"nobody can look into."},
		{"user", FIELD_USER, AT(vm_spec, user), .max = 4294967294, .text = &user_text,
			.help = "Who runs commands, by name or uid. Absent: the image's default."},
		{"cloud_init", FIELD_OBJECT, AT(vm_spec, cloud_init), .shape = &cloud_shape},
		{"files", LIST_AT(vm_spec, files), .preset = "[]", .max = SPEC_FILES_MAX,
			PART_ITEM(file_shape),
			.help = "Files that are put onto its disk before it boots."},
		{"service", FIELD_OBJECT, AT(vm_spec, service), .shape = &service_shape,
			.help = "For container images only."},
		{"forwards", LIST_AT(vm_spec, forwards), .preset = "[]", .max = SPEC_FORWARDS_MAX,
			PART_ITEM(forward_shape),
			.help = "Ports of 127.0.0.1 that lead to ports of the VM."},
		{"aliases", LIST_AT(vm_spec, aliases), .preset = "[]", .max = 64,
			TEXT_ITEM(alias_text, 253),
			.help = "More names for it in DNS."},
		{"warm", FIELD_BOOL, .preset = "true", AT(vm_spec, warm),
			.help = "Start from a saved running VM of the same kind where the driver "
				"can. False: always boot."},
		{"native", FIELD_NATIVE, .preset = "{}", AT(vm_spec, native),
			.help = "Settings for the driver alone; see its documentation."}),
};

const struct shape spec_shape = {
	.title = "sandbox", .help = "A moat sandbox: virtual machines and the networks between "
		"them.",
	.size = sizeof(struct sandbox_spec),
	FIELDS({"driver", FIELD_CHOICE, .preset = "\"qemu\"", AT(sandbox_spec, driver),
			.choices = &spec_driver_choices,
			.help = "Who makes the VMs."},
		{"pool", FIELD_TEXT, AT(sandbox_spec, pool), .min = 1, .max = 64,
			.text = &name_text,
			.help = "Which group of servers. Absent: the driver's default."},
		{"vms", LIST_AT(sandbox_spec, vms), .required = true, .min = 1, .max = SPEC_VMS_MAX,
			PART_ITEM(vm_shape), .help = "The virtual machines, in the order in which "
				"they start."},
		{"networks", FIELD_PART, .preset = "\"auto\"", AT(sandbox_spec, networks),
			.shape = &networks_shape},
		{"native", FIELD_NATIVE, .preset = "{}", AT(sandbox_spec, native),
			.help = "Settings for the driver alone, for the sandbox as a whole."}),
};
/* clang-format on */

const struct field *shape_find(const struct shape *s, const char *name)
{
	for (size_t i = 0; i < s->n_fields; i++)
		if (strcmp(s->fields[i].name, name) == 0)
			return &s->fields[i];
	return NULL;
}

size_t field_size(const struct field *f)
{
	switch (f->kind) {
	case FIELD_BOOL:
		return sizeof(bool);
	case FIELD_WHOLE:
		return sizeof(unsigned);
	case FIELD_NUMBER:
		return sizeof(double);
	case FIELD_CHOICE:
		return sizeof(int);
	case FIELD_IPV4:
		return sizeof(uint32_t);
	case FIELD_IPV4_NET:
		return sizeof(struct ipv4_net);
	case FIELD_MAC:
		return sizeof(struct mac_addr);
	case FIELD_PART:
		return f->shape->size;
	case FIELD_TEXT:
	case FIELD_USER:
	case FIELD_NATIVE:
	case FIELD_TEXT_MAP:
	case FIELD_OBJECT:
	case FIELD_LIST:
		return sizeof(void *);
	}
	return 0;
}
