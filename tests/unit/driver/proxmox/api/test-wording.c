/* Every quote here is what a genuine server said, or its source has. */
#include "driver/proxmox/api/wording.h"

#include "tap.h"

/* Whether an answer with this text means that. */
static bool means(bool (*says)(const struct err *e), const char *text)
{
	struct err e;

	err_set(&e, ERR_BACKEND, "%s (HTTP 500)", text);
	return says(&e);
}

/* Whether a task that ended with this text does, as pve_task_wait reports it. */
static bool task_means(bool (*says)(const struct err *e), const char *text)
{
	struct err e;

	err_set(&e, ERR_BACKEND, "task qmclone on node pve failed: %s", text);
	return says(&e);
}

/* Whether an answer with this text means that of VM 100. */
static bool means_of_100(bool (*says)(const struct err *e, unsigned vmid), const char *text)
{
	struct err e;

	err_set(&e, ERR_BACKEND, "%s (HTTP 500)", text);
	return says(&e, 100);
}

#define VM_LOCK      "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout"
#define STORAGE_LOCK "can't lock file '/var/lock/pve-manager/pve-storage-local-lvm' - got timeout"

static void missing(void)
{
	tap_ok(pve_says_missing(
		       "Configuration file 'nodes/pve/qemu-server/999.conf' does not exist"),
		"a VM is missing");
	tap_ok(pve_says_missing("sdn 'mabcde00' does not exist"), "a vnet is missing");
	tap_ok(!pve_says_missing("Permission check failed (/vms/201, VM.Audit)"),
		"a VM is not ours");
	tap_ok(means(pve_says_name_taken,
		       "create sdn zone object failed: sdn zone object ID 'mabcden' "
		       "already defined"),
		"a zone is there already");
	tap_ok(means(pve_says_name_taken, "IP '10.0.0.5' already exist"), "an address is");
	tap_ok(task_means(pve_says_name_taken, "snapshot name 'a' already used"), "a snapshot is");
	tap_ok(!means(pve_says_name_taken, "sdn 'mabcden' does not exist"), "a zone is not");
	tap_ok(means_of_100(pve_says_vmid_taken,
		       "unable to create VM 100 - VM 100 already exists on node 'pve'"),
		"a number is taken");
	tap_ok(means_of_100(
		       pve_says_vmid_taken, "unable to create VM 100: config file already exists"),
		"a clone's number is taken");
	tap_ok(means_of_100(pve_says_vmid_taken, VM_LOCK), "a number is being taken");
	tap_ok(!means_of_100(pve_says_vmid_taken, STORAGE_LOCK), "a number is not taken");
	tap_ok(means(pve_says_no_linked_clone, "Linked clone feature is not supported for "
					       "'dir:100/vm-100-disk-0.raw' (scsi0)"),
		"no linked clones");
}

static void locks(void)
{
	tap_ok(means_of_100(pve_says_vm_locked, VM_LOCK), "the VM is locked");
	tap_ok(!means_of_100(pve_says_vm_locked,
		       "can't lock file '/var/lock/qemu-server/lock-1001.conf' - got timeout"),
		"another VM is locked");
	tap_ok(!means(pve_says_busy, VM_LOCK), "a VM's lock is not the server's");
	tap_ok(means(pve_says_busy, STORAGE_LOCK), "a storage is busy");
	tap_ok(task_means(pve_says_busy, STORAGE_LOCK), "a storage is busy, says a task");
	tap_ok(means(pve_says_busy,
		       "cfs-lock 'file-sdn_zones_cfg' error: got lock request timeout"),
		"the cluster is busy");
	tap_ok(!means(pve_says_busy, "cfs-lock 'file-sdn_zones_cfg' error: no quorum!"),
		"a cluster without a quorum is not busy");
	tap_ok(means(pve_says_busy,
		       "command '/sbin/lvs --separator : --noheadings' failed: got timeout"),
		"LVM is busy");
}

static void vms(void)
{
	tap_ok(task_means(pve_says_runs_already, "VM 100 already running"), "it runs already");
	tap_ok(!means(pve_says_runs_already, "VM 100 is not running"), "it does not run already");
	tap_ok(means(pve_says_not_running, "VM 100 is not running"), "it does not run");
	tap_ok(task_means(pve_says_bridge_failed, "start failed: QEMU exited with code 1"),
		"QEMU did not start");
	tap_ok(task_means(pve_says_bridge_failed,
		       "start failed: QEMU exited with code 1" PVE_LOG_MARK
		       "kvm: -netdev type=tap,id=net0: network script "
		       "/usr/libexec/qemu-server/pve-bridge failed with status 65280)"),
		"with the bridge's script in its log");
	tap_ok(!task_means(pve_says_bridge_failed,
		       "start failed: QEMU exited with code 1" PVE_LOG_MARK
		       "kvm: CPU model 'host' requires KVM or HVF)"),
		"not with another reason in its log");
	tap_ok(!task_means(pve_says_name_taken,
		       "snapshot feature is not available" PVE_LOG_MARK "a file already exists)"),
		"a log is for people to read");
	tap_ok(!task_means(pve_says_bridge_failed, "bridge 'mabcde00' does not exist"),
		"QEMU was not started");
}

static void agent(void)
{
	static const char late[] = "VM 100 qga command 'guest-exec-status' failed - got timeout";

	tap_ok(means(pve_says_agent_down, "QEMU guest agent is not running"), "the agent is down");
	tap_ok(!means(pve_says_agent_down, "VM 100 is not running"), "the VM is down");
	tap_ok(means(pve_says_agent_late, late), "the agent is late");
	tap_ok(means(pve_says_agent_unsure, late), "what is late may have been done");
	tap_ok(means(pve_says_agent_unsure, "client closed connection"), "what was cut off, too");
	tap_ok(!means(pve_says_agent_unsure, "QEMU guest agent is not running"),
		"what nobody heard has not been done");
	tap_ok(means(pve_says_no_process, "Agent error: Invalid parameter 'pid'"), "an old agent");
	tap_ok(means(pve_says_no_process, "Agent error: PID 1234 does not exist"), "a new agent");
	tap_ok(means(pve_says_no_process, "Agent error: PID ld does not exist"), "one with a bug");
	tap_ok(!means(pve_says_no_process,
		       "Agent error: failed to open file '/missing' (mode: 'r'): No "
		       "such file or directory"),
		"a file is no process");
	tap_ok(means(pve_says_agent_forbidden,
		       "Agent error: The command guest-exec has been disabled for this instance"),
		"a command is disabled");
}

static void certificates(void)
{
	tap_ok(means(pve_says_certificate, "cannot connect to https://pve:8006: SSL certificate "
					   "problem: self-signed certificate"),
		"not trusted");
	tap_ok(means(pve_says_certificate,
		       "the certificate of https://pve:8006 is not the pinned one"),
		"not the pinned one");
	tap_ok(!means(pve_says_certificate,
		       "cannot connect to https://pve:8006: Connection refused"),
		"nobody there");
}

int main(void)
{
	missing();
	locks();
	vms();
	agent();
	certificates();
	return tap_done();
}
