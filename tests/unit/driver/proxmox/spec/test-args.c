/* What is asked of a Proxmox server, as text. */
#include "driver/proxmox/spec/args.h"
#include "driver/proxmox/spec/check.h"

#include "tap.h"
#include "util/auto.h"
#include "util/json.h"

static struct sandbox_spec *spec_of(const char *text)
{
	auto_json json_t *j = json_loads(text, 0, NULL);
	struct sandbox_spec *s = NULL;
	struct err e;

	if (!j || spec_parse(j, &s, &e) < 0) {
		printf("# %s\n", j ? e.msg : "not JSON");
		exit(1);
	}
	return s;
}

static const char *text_of(json_t *j, const char *key)
{
	return json_string_value(json_object_get(j, key));
}

static void settings(void)
{
	static const char *const bridges[] = {"mabcde00", "mabcde01"};
	auto_spec struct sandbox_spec *s =
		spec_of("{\"driver\":\"proxmox\",\"vms\":[{\"name\":\"a.b\",\"source\":{\"built_"
			"in\":\"debian13\"},"
			"\"ram_mb\":768,\"vcpus\":3,\"uefi_boot\":true,\"firewall\":true,"
			"\"native\":{\"machine\":\"q35\",\"sata5\":null,\"balloon\":0},"
			"\"nics\":[{\"vnet\":\"x\",\"mac\":\"52:54:00:aa:bb:cc\"},{\"vnet\":\"y\","
			"\"vlan_tag\":7}]}],"
			"\"networks\":{\"vnets\":[{\"alias\":\"x\"},{\"alias\":\"y\",\"vlan_"
			"aware\":true}]}}");
	auto_json json_t *before = json_pack("{s:s, s:s, s:s, s:s}", "net0", "virtio,bridge=vmbr0",
		"net5", "virtio,bridge=vmbr1", "tags", "old;inspect", "scsi0", "x:y,size=2G");
	auto_json json_t *j = NULL;
	struct pve_vm_plan p = {.spec = &s->vms[0],
		.tags = "inspect",
		.stamp = "moat-1-2",
		.description = "d",
		.template_config = before,
		.bridges = bridges,
		.image_storage = "lvm",
		.seed_volid = "local:iso/s.iso"};
	struct err e;

	OK(pve_vm_settings(&p, &j, &e) == 0);
	STR_IS(text_of(j, "name"), "a-b");
	STR_IS(text_of(j, "tags"), "inspect;moat-1-2");
	STR_IS(text_of(j, "net0"), "virtio,bridge=mabcde00,macaddr=52:54:00:AA:BB:CC,firewall=1");
	STR_IS(text_of(j, "net1"), "virtio,bridge=mabcde01,tag=7,firewall=1");
	STR_IS(text_of(j, "delete"), "net5");
	STR_IS(text_of(j, "efidisk0"), "lvm:0,efitype=4m,pre-enrolled-keys=0");
	STR_IS(text_of(j, "bios"), "ovmf");
	STR_IS(text_of(j, "ide2"), "local:iso/s.iso,media=cdrom");
	STR_IS(text_of(j, "machine"), "q35");
	STR_IS(text_of(j, "serial1"), "socket");
	STR_IS(text_of(j, "cpu"), "host");
	OK(json_is_null(json_object_get(j, "sata5"))); /* the escape hatch takes it out */
	OK(json_integer_value(json_object_get(j, "memory")) == 768);
	OK(json_integer_value(json_object_get(j, "cores")) == 3);
}

/* Somebody's template keeps what the spec does not mention. */
static void templates(void)
{
	auto_spec struct sandbox_spec *s = spec_of("{\"driver\":\"proxmox\",\"vms\":[{\"source\":{"
						   "\"existing_vm_template_tag\":\"win\"}}]}");
	auto_json json_t *before = json_pack("{s:s, s:s, s:s}", "net0", "e1000,bridge=vmbr0",
		"tags", "inspect;moat-1-9;win;lab", "ostype", "win11");
	auto_json json_t *j = NULL;
	struct pve_vm_plan p = {.spec = &s->vms[0],
		.tags = "inspect",
		.stamp = "moat-1-2",
		.description = "d",
		.template_config = before,
		.image_storage = "lvm"};
	struct err e;

	OK(pve_vm_settings(&p, &j, &e) == 0);
	STR_IS(text_of(j, "tags"), "inspect;moat-1-2;win;lab");
	OK(!json_object_get(j, "ostype") && !json_object_get(j, "cpu"));
	OK(!json_object_get(j, "net0") && !json_object_get(j, "delete"));
}

static void subnets(void)
{
	auto_spec struct sandbox_spec *s = spec_of(
		"{\"driver\":\"proxmox\",\"vms\":[{\"source\":{\"built_in\":\"debian13\"}}],"
		"\"networks\":{\"vnets\":[{\"alias\":\"x\",\"subnets\":[{\"cidr\":\"10.1.2.0/24\","
		"\"gateway\":\"10.1.2.1\",\"snat\":true,\"dhcp_ranges\":[{\"start\":\"10.1.2.50\","
		"\"end\":\"10.1.2.60\"}]}]}]}}");
	auto_json json_t *j = NULL;
	auto_free char *text = NULL;
	struct err e;

	OK(pve_subnet_params(&s->networks.vnets[0], &s->networks.vnets[0].subnets[0], "9.9.9.9", &j,
		   &e) == 0);
	OK(json_to_str(j, &text, &e) == 0);
	STR_IS(text, "{\"subnet\":\"10.1.2.0/"
		     "24\",\"type\":\"subnet\",\"gateway\":\"10.1.2.1\",\"snat\":true,"
		     "\"dhcp-range\":[\"start-address=10.1.2.50,end-address=10.1.2.60\"],"
		     "\"dhcp-dns-server\":\"9.9.9.9\"}");
}

static void names(void)
{
	char dns[64], tag[128], snap[41];
	auto_json json_t *config = json_pack("{s:s, s:s, s:s, s:s}", "ide2", "x,media=cdrom",
		"scsi1", "b", "scsi0", "a", "net0", "n");
	auto_json json_t *boots = json_pack(
		"{s:s, s:s, s:s}", "scsi0", "a", "virtio3", "b", "boot", "order=virtio3;net0");

	pve_dns_name("web_1.x", dns);
	STR_IS(dns, "web-1-x");
	pve_dns_name("---", dns);
	STR_IS(dns, "x");
	pve_tag_text("-Kali 2025.3!", tag);
	STR_IS(tag, "_kali_2025.3_");
	OK(pve_has_tag("a;inspect;b", "inspect") && pve_has_tag("x", "x") &&
		pve_has_tag("a,b", "b"));
	OK(!pve_has_tag("inspector", "inspect") && !pve_has_tag(NULL, "x") &&
		!pve_has_tag("", "x"));
	pve_snapshot_name("before-attack", snap);
	STR_IS(snap, "before-attack");
	pve_snapshot_name("my snapshot", snap);
	OK(strlen(snap) == 37 && strncmp(snap, "moat_", 5) == 0);
	pve_snapshot_name("current", snap);
	OK(strncmp(snap, "moat_", 5) == 0);
	STR_IS(pve_first_disk(config), "scsi0");
	STR_IS(pve_first_disk(boots), "virtio3");
	OK(pve_disk_size("lvm:vm-1-disk-0,size=10G") == (uint64_t)10 << 30);
	OK(pve_disk_size("x,size=512M,ssd=1") == (uint64_t)512 << 20 && pve_disk_size("x") == 0);
}

static void refuse(const char *spec, const char *want)
{
	auto_spec struct sandbox_spec *s = spec_of(spec);
	struct err e = {0};

	OK(pve_check_spec(s, &e) < 0 && strstr(e.msg, want));
}

#define ISOLATED "\"native\":{\"isolated\":true}"
#define DEBIAN   "\"source\":{\"built_in\":\"debian13\"}"

static void isolation(void)
{
	static const char *const bad[][2] = {
		{"\"vms\":[{\"source\":{\"existing_vm_template_tag\":\"a\"}}]", "vms[0].nics"},
		{"\"vms\":[{" DEBIAN ",\"firewall\":true}]", "vms[0].firewall"},
		{"\"vms\":[{" DEBIAN ",\"native\":{\"net1\":\"virtio,bridge=vmbr0\"}}]",
			"vms[0].native.net1"},
		{"\"vms\":[{" DEBIAN ",\"native\":{\"args\":\"-nic user\"}}]",
			"vms[0].native.args"},
		{"\"vms\":[{" DEBIAN "}],\"networks\":null", "networks"},
		{"\"vms\":[{" DEBIAN
		 "}],\"networks\":{\"vnets\":[{\"alias\":\"a\",\"egress\":\"open\",\"subnets\":"
		 "[{\"cidr\":\"10.1.0.0/24\",\"gateway\":\"10.1.0.1\",\"snat\":true}]}]}",
			"networks.vnets[0].egress"},
		{"\"vms\":[{" DEBIAN
		 "}],\"networks\":{\"vnets\":[{\"alias\":\"a\",\"egress\":\"deny\",\"subnets\":"
		 "[{\"cidr\":\"10.1.0.0/24\",\"gateway\":\"10.1.0.1\",\"snat\":true}]}]}",
			"networks.vnets[0].subnets[0].snat"},
	};
	auto_spec struct sandbox_spec *good =
		spec_of("{\"driver\":\"proxmox\",\"vms\":[{" DEBIAN "}]," ISOLATED "}");
	char text[512];
	struct err e = {0};

	OK(pve_is_isolated(good) && pve_check_spec(good, &e) == 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		snprintf(text, sizeof(text), "{\"driver\":\"proxmox\",%s," ISOLATED "}", bad[i][0]);
		refuse(text, bad[i][1]);
	}
	refuse("{\"driver\":\"proxmox\",\"vms\":[{" DEBIAN "}],"
	       "\"native\":{\"isolated\":true,\"auto_snat\":true}}",
		"native.auto_snat");
	refuse("{\"driver\":\"proxmox\",\"vms\":[{" DEBIAN "}],"
	       "\"native\":{\"isolated\":true,\"zone\":{\"mtu\":1400}}}",
		"native.zone");
	refuse("{\"driver\":\"proxmox\",\"vms\":[{" DEBIAN "}],\"native\":{\"isolated\":1}}",
		"native.isolated");
}

static void checks(void)
{
	refuse("{\"driver\":\"proxmox\",\"vms\":[{\"source\":{\"built_in\":\"debian13\"},"
	       "\"native\":{\"tags\":\"mine\"}}]}",
		"vms[0].native.tags");
	refuse("{\"driver\":\"proxmox\",\"vms\":[{\"source\":{\"built_in\":\"debian13\"},"
	       "\"native\":{\"net0\":{}}}]}",
		"vms[0].native.net0");
	refuse("{\"driver\":\"proxmox\",\"vms\":[{\"source\":{\"built_in\":\"debian13\"}}],"
	       "\"native\":{\"colour\":1}}",
		"native.colour");
	refuse("{\"driver\":\"proxmox\",\"vms\":[{\"source\":{\"ova\":\"/no/such.ova\"}}]}",
		"vms[0].source.ova");
}

int main(void)
{
	settings();
	templates();
	subnets();
	names();
	checks();
	isolation();
	return tap_done();
}
