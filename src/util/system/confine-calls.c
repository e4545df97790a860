/*
 * How it works: a program for the kernel looks at the number of each system call and compares it
 * with a list. QEMU has a longer list of its own (-sandbox), which it sets when it has read its
 * arguments; both count.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "util/auto.h"
#include "util/system/confine.h"

#if defined(__x86_64__)
#define ARCH      AUDIT_ARCH_X86_64
#define OTHER_ABI 0x40000000 /* numbers of the x32 interface begin here */
#elif defined(__aarch64__)
#define ARCH      AUDIT_ARCH_AARCH64
#define OTHER_ABI 0x40000000 /* there is none */
#endif

#ifdef ARCH

enum {
	NAMESPACES = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
		     CLONE_NEWUTS | CLONE_NEWCGROUP
};

static const unsigned short denied[] = {
	/* other processes */
	SYS_ptrace,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_process_madvise,
	SYS_kcmp,
	SYS_pidfd_getfd,
	/* files by other ways than names and open files */
	SYS_open_by_handle_at,
	SYS_name_to_handle_at,
	/* the kernel */
	SYS_bpf,
	SYS_perf_event_open,
	SYS_userfaultfd,
	SYS_keyctl,
	SYS_add_key,
	SYS_request_key,
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_kexec_load,
	SYS_reboot,
	SYS_swapon,
	SYS_swapoff,
	SYS_acct,
	SYS_quotactl,
	SYS_syslog,
	SYS_settimeofday,
	SYS_clock_settime,
	SYS_adjtimex,
	SYS_clock_adjtime,
	SYS_sethostname,
	SYS_setdomainname,
	SYS_vhangup,
	SYS_lookup_dcookie,
#ifdef __x86_64__
	SYS_iopl,
	SYS_ioperm,
	SYS_modify_ldt,
	SYS_kexec_file_load,
#endif
};

static const unsigned short of_namespaces[] = {
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_chroot,
	SYS_unshare,
	SYS_setns,
	SYS_open_tree,
	SYS_move_mount,
	SYS_fsopen,
	SYS_fsconfig,
	SYS_fsmount,
	SYS_fspick,
	SYS_mount_setattr,
};

enum { RULES_MAX = 16 + 2 * (ARRAY_LEN(denied) + ARRAY_LEN(of_namespaces)) };

struct rules {
	struct sock_filter list[RULES_MAX];
	unsigned short n;
};

static void add(struct rules *r, struct sock_filter one)
{
	r->list[r->n++] = one;
}

/* Returns `verdict` if the loaded word is (or has a bit of) the value. */
static void add_case(struct rules *r, unsigned short compare, uint32_t value, uint32_t verdict)
{
	add(r, (struct sock_filter)BPF_JUMP(BPF_JMP | compare | BPF_K, value, 0, 1));
	add(r, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict));
}

static void load(struct rules *r, size_t offset)
{
	add(r, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

/* The filter cannot see the flags of clone3; without it libraries use clone. */
static void refuse_namespaces(struct rules *r)
{
	const uint32_t refuse = SECCOMP_RET_ERRNO | EPERM;

	for (unsigned i = 0; i < ARRAY_LEN(of_namespaces); i++)
		add_case(r, BPF_JEQ, of_namespaces[i], refuse);
	add_case(r, BPF_JEQ, SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
	add(r, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3));
	load(r, offsetof(struct seccomp_data, args[0]));
	add_case(r, BPF_JSET, NAMESPACES, refuse);
}

int confine_calls(bool namespaces)
{
	const uint32_t refuse = SECCOMP_RET_ERRNO | EPERM;
	struct rules r = {.n = 0};
	struct sock_fprog program;

	load(&r, offsetof(struct seccomp_data, arch));
	add(&r, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0));
	add(&r, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, refuse));
	load(&r, offsetof(struct seccomp_data, nr));
	add_case(&r, BPF_JGE, OTHER_ABI, refuse);
	for (unsigned i = 0; i < ARRAY_LEN(denied); i++)
		add_case(&r, BPF_JEQ, denied[i], refuse);
	if (!namespaces)
		refuse_namespaces(&r);
	add(&r, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	program = (struct sock_fprog){.len = r.n, .filter = r.list};
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

#else

int confine_calls(bool namespaces)
{
	(void)namespaces;
	return 0; /* a processor whose system calls we do not know: docs/security.md */
}

#endif
