/*
 * wording.h - what a Proxmox VE server says in its messages, told apart by meaning. A status is not
 * enough: nearly everything that goes wrong there is a 500, or a task that ended with a text. The
 * quotes are from Proxmox VE 8 and 9. Pure; any thread.
 */
#pragma once

/* What follows in the message of a task that failed is from its log: for people to read, while only
 * what comes before it is told apart by meaning. */
#define PVE_LOG_MARK " (its log: "

#include <stdbool.h>

#include "util/err.h"

/* The status, without a text, when the front end loses the back end that worked on a request. The
 * reason may be what the guest agent said: after "agent/exec" of a program that does not exist, the
 * back end dies of the quotation marks in the agent's message. */
enum { PVE_BROKEN_PIPE = 596 };

/* ---- what is there, and what is not ---- */

/* "Configuration file 'nodes/pve/qemu-server/999.conf' does not exist": a VM; likewise storages,
 * volumes, pools and, as "sdn 'mabcde00' does not exist", zones, vnets and subnets. */
bool pve_says_missing(const char *text);
/* A zone, a vnet, a subnet or an address of the SDN: "create sdn zone object failed: sdn zone
 * object ID 'mabcden' already defined"; "IP '10.0.0.5' already exist". Or a snapshot: "snapshot
 * name 'a' already used". */
bool pve_says_name_taken(const struct err *e);
/* There is a VM of this number: "unable to create VM 100 - VM 100 already exists on node 'pve'";
 * "unable to create VM 100: config file already exists", also as the end of a task when two
 * clients make it at once. Or another client is making it: pve_says_vm_locked. */
bool pve_says_vmid_taken(const struct err *e, unsigned vmid);
/* "Linked clone feature is not supported for 'dir:100/vm-100-disk-0.raw' (scsi0)": this storage
 * cannot share a template's disk. */
bool pve_says_no_linked_clone(const struct err *e);

/* ---- locks ---- */

/* Another client holds the lock of a VM's configuration: "can't lock file
 * '/var/lock/qemu-server/lock-100.conf' - got timeout", after 10 s. */
bool pve_says_vm_locked(const struct err *e, unsigned vmid);
/* A call or a task waited in vain for what other clients use too, which passes. For a storage's
 * lock: "can't lock file '/var/lock/pve-manager/pve-storage-local-lvm' - got timeout". For the
 * cluster's lock: "cfs-lock 'file-sdn_zones_cfg' error: got lock request timeout", but not "...
 * error: no quorum!". For a command about a storage: "command '/sbin/lvs ...' failed: got
 * timeout". */
bool pve_says_busy(const struct err *e);

/* What a removal may wait for: any lock, anything that took too long. */
bool pve_says_passing(const struct err *e);

/* ---- VMs ---- */

/* "VM 100 already running", as the end of a task that starts it. */
bool pve_says_runs_already(const struct err *e);
/* "VM 100 is not running", when its guest agent is asked for something. */
bool pve_says_not_running(const struct err *e);
/* "start failed: QEMU exited with code 1", as the end of a task, and in its log "kvm: -netdev ...:
 * network script .../pve-bridge failed with status 65280", or there is no log: a bridge had no DHCP
 * server at the moment. With any other log, QEMU does not take a setting. */
bool pve_says_bridge_failed(const struct err *e);

/* ---- the guest agent ---- */

/* "QEMU guest agent is not running": it did not answer for 3 s, so nothing was done. */
bool pve_says_agent_down(const struct err *e);
/* The server waited in vain for the agent's answer: "VM 100 qga command 'guest-exec-status' failed
 * - got timeout", after 5 s; it may have come to more than the server takes, and is lost. */
bool pve_says_agent_late(const struct err *e);
/* The connection to the agent broke: "unable to connect to VM 100 qga socket - ...", "client closed
 * connection"; or pve_says_agent_late. What was asked for may have been done. */
bool pve_says_agent_unsure(const struct err *e);
/* The agent does not know the process (any more): "Agent error: Invalid parameter 'pid'" until QEMU
 * 9; "Agent error: PID 1234 does not exist" since, and some say "PID ld does not exist". */
bool pve_says_no_process(const struct err *e);
/* The agent may not do this: "Agent error: The command guest-exec has been disabled for this
 * instance", or "... is not allowed". */
bool pve_says_agent_forbidden(const struct err *e);

/* ---- logging in ---- */

/* About the server's certificate: libcurl's "SSL certificate problem: self-signed certificate", or
 * our own "the certificate of ... is not the pinned one". */
bool pve_says_certificate(const struct err *e);
