/* args.h - parameters of requests to a Proxmox server, put together from the spec. Pure; any
 * thread. */
#pragma once

#include <jansson.h>

#include "spec/spec.h"

struct pve_vnet {
	char id[9];
	const struct vnet_spec *spec;
	const struct subnet_spec *subnets;
	size_t n_subnets;
};

/* The settings of a cloned VM, for PUT config. */
struct pve_vm_plan {
	const struct vm_spec *spec;
	const char *tags; /* that all VMs of the instance have, "a;b" */
	const char *stamp, *description;
	const json_t *template_config; /* what the clone begins with */
	const char *const *bridges;    /* for each NIC */
	const char *image_storage;
	const char *seed_volid; /* cloud-init disk; NULL: none */
	bool firewalled;        /* its NICs are behind the firewall, whatever the spec says */
	bool no_kvm;            /* the node cannot run VMs with KVM */
};
int pve_vm_settings(const struct pve_vm_plan *p, json_t **ret, struct err *e);

/* The CPU model for VMs that come with none. */
const char *pve_cpu(bool no_kvm);

/* "virtio,bridge=x,macaddr=..." */
struct pve_nic {
	const struct vm_spec *vm;
	const struct nic_spec *spec;
	const char *bridge;
	bool firewalled;
};
int pve_nic_text(const struct pve_nic *nic, char **ret, struct err *e);
/* The parameters of POST .../subnets. dns: the server that DHCP tells guests of networks with
 * egress, or NULL. */
int pve_subnet_params(const struct vnet_spec *vnet, const struct subnet_spec *s, const char *dns,
	json_t **ret, struct err *e);

/* A VM's name as Proxmox wants it (a DNS name): what is not allowed becomes "-". */
void pve_dns_name(const char *name, char ret[64]);
/* A tag as Proxmox wants it: what is not allowed becomes "_". */
void pve_tag_text(const char *text, char ret[128]);
bool pve_has_tag(const char *tags, const char *tag);
/* A snapshot's name as Proxmox wants it: a name that is not allowed becomes its hash. */
void pve_snapshot_name(const char *name, char ret[41]);
/* The drive for large files, which is empty; NULL: something else is in its place. */
const char *pve_disc_drive(const struct vm_spec *vm, const json_t *template_config);
/* The disks of a configuration that hold data: the first one's name ("scsi0"), or NULL. */
const char *pve_first_disk(const json_t *config);
/* "local-lvm:vm-1-disk-0,size=10G": 10 GiB in bytes; 0 if it does not say. */
uint64_t pve_disk_size(const char *text);
