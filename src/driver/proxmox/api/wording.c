#include "driver/proxmox/api/wording.h"

#include <stdio.h>
#include <string.h>

static bool says(const struct err *e, const char *text)
{
	const char *found = strstr(e->msg, text), *log = strstr(e->msg, PVE_LOG_MARK);

	return found && (!log || found < log);
}

bool pve_says_missing(const char *text)
{
	return strstr(text, "does not exist") != NULL;
}

bool pve_says_name_taken(const struct err *e)
{
	return says(e, "already");
}

bool pve_says_vmid_taken(const struct err *e, unsigned vmid)
{
	if (pve_says_vm_locked(e, vmid))
		return true;
	return (e->kind == ERR_BACKEND || e->kind == ERR_INVALID || e->kind == ERR_NOT_FOUND) &&
	       (says(e, "already exists") || says(e, "already in use"));
}

bool pve_says_no_linked_clone(const struct err *e)
{
	return says(e, "Linked clone") || says(e, "linked clone");
}

bool pve_says_vm_locked(const struct err *e, unsigned vmid)
{
	char file[32];

	snprintf(file, sizeof(file), "/lock-%u.conf", vmid);
	return e->kind == ERR_BACKEND && says(e, "can't lock file") && says(e, file);
}

bool pve_says_busy(const struct err *e)
{
	if (e->kind != ERR_BACKEND)
		return false;
	if (says(e, "can't lock file '/var/lock/pve-manager/") && says(e, "got timeout"))
		return true;
	if (says(e, "cfs-lock '") && says(e, "got lock request timeout"))
		return true;
	return says(e, "command '/sbin/") && says(e, "failed: got timeout");
}

bool pve_says_passing(const struct err *e)
{
	return says(e, "lock") || says(e, "timeout") || says(e, "timed out");
}

bool pve_says_runs_already(const struct err *e)
{
	return says(e, "already running");
}

bool pve_says_not_running(const struct err *e)
{
	return says(e, "is not running");
}

bool pve_says_bridge_failed(const struct err *e)
{
	const char *log = strstr(e->msg, PVE_LOG_MARK);

	if (e->kind != ERR_BACKEND || !says(e, "QEMU exited with code 1"))
		return false;
	return !log || strstr(log, "network script ");
}

bool pve_says_agent_down(const struct err *e)
{
	return says(e, "guest agent is not running");
}

bool pve_says_agent_late(const struct err *e)
{
	return says(e, "got timeout");
}

bool pve_says_agent_unsure(const struct err *e)
{
	return pve_says_agent_late(e) || says(e, "unable to connect") ||
	       says(e, "client closed connection");
}

bool pve_says_no_process(const struct err *e)
{
	const char *pid = strstr(e->msg, "Agent error: PID ");

	return says(e, "parameter 'pid'") || (pid && strstr(pid, " does not exist"));
}

bool pve_says_agent_forbidden(const struct err *e)
{
	return says(e, "has been disabled") || says(e, "not allowed");
}

bool pve_says_certificate(const struct err *e)
{
	return says(e, "certificate");
}
