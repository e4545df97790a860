/*
 * moat-init - process 1 of a VM that is made of a container image. It starts the runner, gets
 * addresses for the NICs, and runs the image's own command as a container would. Nothing of the
 * image is needed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "moat-init/boot.h"
#include "moat-init/common/files.h"
#include "moat-init/ctl.h"
#include "moat-init/dhcp/client.h"
#include "moat-init/init.h"
#include "moat-init/modules.h"

#if defined(RUNNER_IS) && !RUNNER_IS
#error "the compiler is for another architecture than this init"
#endif

enum {
	HELPER_PAUSE_MS = 50, /* before a helper that has ended is started again; doubles */
	/* QEMU tells the host once a second at most that the runner's port was closed or opened. If
	 * it were open again by then, the host would never learn that the runner had ended. */
	RUNNER_PAUSE_MS = 1500,
	HELPER_PAUSE_MAX_MS = 5000,
	HELPER_STEADY_MS = 10000,
	STOP_MS = 10000,
	FIXED_FDS = 4,
};

int64_t init_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- the runner and the DHCP client ---- */

static void become_runner(struct init *in)
{
	static const char *const argv[] = {"moat-guest", "serve", "org.moat.guest.0", NULL};
	static char *const env[] = {NULL};

	syscall(SYS_execveat, in->runner_fd, "", argv, env, AT_EMPTY_PATH);
	say("the runner cannot be started: %s", strerror(errno));
	_exit(1);
}

static void become_dhcp(int told_fd)
{
	prctl(PR_SET_NAME, "moat-dhcp");
	dhcp_run(told_fd);
}

static void start_helper(struct init *in, struct helper *h)
{
	int pair[2] = {-1, -1};

	h->start_at = 0;
	h->started = init_now_ms();
	if (h == &in->dhcp && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0) {
		if (in->addresses_fd >= 0)
			close(in->addresses_fd);
		in->addresses_fd = pair[0];
		in->addresses = 0;
	}
	h->pid = fork();
	if (h->pid == 0) {
		sigprocmask(SIG_SETMASK, &in->old_mask, NULL);
		if (h == &in->runner)
			become_runner(in);
		become_dhcp(pair[1]);
	}
	if (pair[1] >= 0)
		close(pair[1]);
	if (h->pid < 0)
		h->start_at = h->started + HELPER_PAUSE_MAX_MS;
}

static void helper_ended(struct init *in, struct helper *h)
{
	int64_t now = init_now_ms();

	h->pid = 0;
	if (in->stopping)
		return;
	if (now - h->started >= HELPER_STEADY_MS || !h->pause)
		h->pause = h == &in->runner ? RUNNER_PAUSE_MS : HELPER_PAUSE_MS;
	h->start_at = now + h->pause;
	h->pause = h->pause * 2 > HELPER_PAUSE_MAX_MS ? HELPER_PAUSE_MAX_MS : h->pause * 2;
}

static void helper_timer(struct init *in, struct helper *h, int64_t now)
{
	if (h->start_at && h->start_at <= now)
		start_helper(in, h);
}

/* ---- the end ---- */

_Noreturn static void power_off(const struct init *in)
{
	kill(-1, SIGTERM);
	service_kill_rest();
	sync();
	mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY, NULL);
	reboot(in->stopping);
	for (;;)
		pause();
}

static void stop(struct init *in, int how)
{
	if (in->stopping)
		return;
	in->stopping = how;
	in->kill_at = init_now_ms() + STOP_MS;
	if (in->service.stage != SERVICE_RUNS)
		power_off(in);
	service_signal(in, in->service.spec.stop_signal);
}

/* Shutdown programs of busybox, sysvinit and systemd send process 1 these signals. */
static void signalled(struct init *in, int number)
{
	if (number == SIGUSR1 || number == SIGUSR2 || number == SIGPWR || number == SIGRTMIN + 3 ||
		number == SIGRTMIN + 4)
		stop(in, RB_POWER_OFF);
	else if (number == SIGTERM || number == SIGINT || number == SIGRTMIN + 5)
		stop(in, RB_AUTOBOOT);
}

/* ---- the loop ---- */

static void reap(struct init *in)
{
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == in->runner.pid)
			helper_ended(in, &in->runner);
		else if (pid == in->dhcp.pid)
			helper_ended(in, &in->dhcp);
		else if (pid == in->service.pid && in->service.stage == SERVICE_RUNS)
			service_ended(in, status);
	}
	if (in->stopping && in->service.stage != SERVICE_RUNS)
		power_off(in);
}

static void signals_ready(struct init *in)
{
	struct signalfd_siginfo s;

	while (read(in->signals, &s, sizeof(s)) == sizeof(s))
		if (s.ssi_signo != SIGCHLD)
			signalled(in, (int)s.ssi_signo);
	reap(in);
}

static void addresses_ready(struct init *in)
{
	uint8_t told[64];
	ssize_t n = recv(in->addresses_fd, told, sizeof(told), MSG_DONTWAIT);

	if (n > 0) {
		in->addresses = told[n - 1];
	} else if (n == 0) {
		close(in->addresses_fd);
		in->addresses_fd = -1;
	}
}

static int64_t sooner(int64_t a, int64_t b)
{
	return b && b < a ? b : a;
}

static int wait_ms(const struct init *in)
{
	int64_t now = init_now_ms(), first = service_next(in);

	first = sooner(first, in->runner.start_at);
	first = sooner(first, in->dhcp.start_at);
	first = sooner(first, in->kill_at);
	if (first == INT64_MAX)
		return -1;
	return first <= now ? 0 : first - now > STOP_MS ? STOP_MS : (int)(first - now);
}

static void one_round(struct init *in)
{
	struct pollfd p[FIXED_FDS + CLIENTS_MAX] = {
		{.fd = in->signals, .events = POLLIN},
		{.fd = in->listener, .events = POLLIN},
		{.fd = in->service.out[0], .events = POLLIN},
		{.fd = in->addresses_fd, .events = POLLIN},
	};
	int64_t now;

	for (int i = 0; i < CLIENTS_MAX; i++)
		p[FIXED_FDS + i] = (struct pollfd){.fd = in->clients[i].fd,
			.events = in->clients[i].fd < 0 ? 0 : client_events(in, &in->clients[i])};
	if (poll(p, FIXED_FDS + CLIENTS_MAX, wait_ms(in)) < 0)
		return;
	if (p[2].revents)
		service_drain(in);
	if (p[3].revents)
		addresses_ready(in);
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (p[FIXED_FDS + i].revents && in->clients[i].fd == p[FIXED_FDS + i].fd)
			client_ready(in, &in->clients[i], p[FIXED_FDS + i].revents);
	if (p[1].revents)
		clients_accept(in);
	if (p[0].revents)
		signals_ready(in);
	now = init_now_ms();
	helper_timer(in, &in->runner, now);
	helper_timer(in, &in->dhcp, now);
	service_timers(in, now);
	if (in->stopping && in->kill_at <= now)
		power_off(in);
}

/* What services and commands may raise theirs to. The kernel's own 4096 is too little for databases
 * and the like, and less than containers have. */
static void allow_files(void)
{
	static const struct rlimit limit = {.rlim_cur = 1024, .rlim_max = 524288};

	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		say("the limit of open files stays: %s", strerror(errno));
}

/* If process 1 ends, the kernel panics and the machine stops: there is nothing to go on with. */
static int init_main(void)
{
	static struct init in = {.addresses_fd = -1};
	sigset_t all;
	int error;

	in.runner_fd = boot();
	if (in.runner_fd < 0)
		return 1;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &in.old_mask);
	reboot(RB_DISABLE_CAD);
	allow_files();
	in.signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	error = service_open(&in);
	if (!error)
		error = clients_open(&in);
	if (error || in.signals < 0) {
		say("process 1 cannot begin: %s", strerror(error ? error : errno));
		return 1;
	}
	start_helper(&in, &in.dhcp);
	start_helper(&in, &in.runner);
	for (;;)
		one_round(&in);
}

int main(int argc, char **argv)
{
	if (getpid() == 1)
		return init_main();
	if (argc == 2 && strcmp(argv[1], "version") == 0) {
		puts("moat-init " MOAT_VERSION);
		return 0;
	}
	if (argc > 1 && argv[1][0] == '-')
		return modprobe_main(argc, argv);
	return ctl_main(argc, argv);
}
