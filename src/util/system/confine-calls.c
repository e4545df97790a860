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
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

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

#define REFUSE (SECCOMP_RET_ERRNO | EPERM)

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
	SYS_io_uring_setup,
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

/* Sockets of these families, and no others. A network namespace says nothing about some of the
 * others: by vsock a process would get at services of the host, and of the machine that the host
 * itself is a VM of. */
static const unsigned short families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET};

enum { RULES_MAX = 32 + 2 * (ARRAY_LEN(denied) + ARRAY_LEN(of_namespaces)) };

struct rules {
	struct sock_filter list[RULES_MAX];
	unsigned short n;
};

static void add(struct rules *r, struct sock_filter one)
{
	r->list[r->n++] = one;
}

static void add_end(struct rules *r, uint32_t verdict)
{
	add(r, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict));
}

/* Returns `verdict` if the loaded word is (or has a bit of) the value. */
static void add_case(struct rules *r, unsigned short compare, uint32_t value, uint32_t verdict)
{
	add(r, (struct sock_filter)BPF_JUMP(BPF_JMP | compare | BPF_K, value, 0, 1));
	add_end(r, verdict);
}

static void load(struct rules *r, size_t offset)
{
	add(r, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

/* The filter cannot see the flags of clone3; without it libraries use clone. */
static void refuse_namespaces(struct rules *r)
{
	for (unsigned i = 0; i < ARRAY_LEN(of_namespaces); i++)
		add_case(r, BPF_JEQ, of_namespaces[i], REFUSE);
	add_case(r, BPF_JEQ, SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
	add(r, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3));
	load(r, offsetof(struct seccomp_data, args[0]));
	add_case(r, BPF_JSET, NAMESPACES, REFUSE);
}

/* Loads the number of the system call, once it is one of our processor's. */
static void begin(struct rules *r)
{
	load(r, offsetof(struct seccomp_data, arch));
	add(r, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0));
	add_end(r, REFUSE);
	load(r, offsetof(struct seccomp_data, nr));
	add_case(r, BPF_JGE, OTHER_ABI, REFUSE);
}

/* Begins what is about one system call; it ends with a verdict. */
static struct sock_filter *begin_call(struct rules *r, uint32_t number)
{
	add(r, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 0));
	return &r->list[r->n - 1];
}

static void end_call(struct rules *r, struct sock_filter *begun, uint32_t verdict)
{
	add_end(r, verdict);
	begun->jf = (unsigned char)(&r->list[r->n - 1] - begun);
}

/* Loads the lower or upper half of an argument: both processors are little-endian. */
static void load_argument(struct rules *r, unsigned i, bool upper)
{
	load(r, offsetof(struct seccomp_data, args[i]) + (upper ? 4 : 0));
}

static int apply(struct rules *r)
{
	struct sock_fprog program = {.len = r->n, .filter = r->list};

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void allow_families(struct rules *r)
{
	struct sock_filter *begun = begin_call(r, SYS_socket);

	load_argument(r, 0, false);
	for (unsigned i = 0; i < ARRAY_LEN(families); i++)
		add_case(r, BPF_JEQ, families[i], SECCOMP_RET_ALLOW);
	end_call(r, begun, REFUSE);
}

int confine_calls(bool namespaces)
{
	struct rules r = {.n = 0};

	begin(&r);
	allow_families(&r);
	for (unsigned i = 0; i < ARRAY_LEN(denied); i++)
		add_case(&r, BPF_JEQ, denied[i], REFUSE);
	if (!namespaces)
		refuse_namespaces(&r);
	add_end(&r, SECCOMP_RET_ALLOW);
	return apply(&r);
}

/* ---- the other way round: only a few are allowed ---- */

static const unsigned short of_sockets[] = {
#ifdef SYS_poll
	SYS_poll,
#endif
	SYS_ppoll,
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_accept4,
	SYS_getrandom,
	SYS_clock_gettime,
	/* memory */
	SYS_brk,
	SYS_munmap,
	SYS_mremap,
	SYS_madvise,
	/* after a signal, such as that which continues a stopped process */
	SYS_restart_syscall,
	SYS_rt_sigreturn,
	SYS_exit_group,
};

/* An address may be given only with some sockets, and no flag that has a meaning of its own. */
static void allow_sendto(struct rules *r, const struct confine_sockets *s)
{
	struct sock_filter *begun = begin_call(r, SYS_sendto);

	load_argument(r, 3, false);
	add_case(r, BPF_JSET, ~(uint32_t)(MSG_NOSIGNAL | MSG_DONTWAIT), REFUSE);
	load_argument(r, 0, false);
	add(r, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)s->first, 0, 2));
	add(r, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)s->end, 1, 0));
	add_end(r, SECCOMP_RET_ALLOW);
	for (int upper = 0; upper < 2; upper++) {
		load_argument(r, 4, upper);
		add_case(r, BPF_JGT, 0, REFUSE);
	}
	end_call(r, begun, SECCOMP_RET_ALLOW);
}

int confine_sockets(const struct confine_sockets *s)
{
	struct rules r = {.n = 0};
	struct sock_filter *begun;

	begin(&r);
	for (unsigned i = 0; i < ARRAY_LEN(of_sockets); i++)
		add_case(&r, BPF_JEQ, of_sockets[i], SECCOMP_RET_ALLOW);
	allow_sendto(&r, s);
	begun = begin_call(&r, SYS_close);
	load_argument(&r, 0, false);
	add_case(&r, BPF_JGE, (uint32_t)s->kept, SECCOMP_RET_ALLOW);
	end_call(&r, begun, REFUSE);
	begun = begin_call(&r, SYS_write); /* last words */
	load_argument(&r, 0, false);
	add_case(&r, BPF_JEQ, STDERR_FILENO, SECCOMP_RET_ALLOW);
	end_call(&r, begun, REFUSE);
	begun = begin_call(&r, SYS_mmap);
	load_argument(&r, 2, false);
	add_case(&r, BPF_JSET, PROT_EXEC, REFUSE);
	end_call(&r, begun, SECCOMP_RET_ALLOW);
	add_end(&r, REFUSE);
	return apply(&r);
}

#else

int confine_calls(bool namespaces)
{
	(void)namespaces;
	return 0; /* a processor whose system calls we do not know: docs/security.md */
}

int confine_sockets(const struct confine_sockets *s)
{
	(void)s;
	return 0;
}

#endif
