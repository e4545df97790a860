/*
 * `moat screen`: a port on the loopback interface for VNC viewers, as long as the command runs. One
 * that anybody on this machine could reach must ask for a password, so we greet the viewer with one
 * of our own, and the VM's VNC server, which wants none, as a viewer.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/terminal/signals.h"
#include "screen/vnc-auth.h"
#include "util/auto.h"
#include "util/system/io.h"

#define VERSION "RFB 003.008\n"
/* What the VM's server says before its first message: the version, one kind of security (none), and
 * that this is fine. */
#define GREETING         VERSION "\1\1\0\0\0\0"
#define GREETING_SECONDS 20.0

enum { VERSION_LEN = 12, GREETING_LEN = VERSION_LEN + 6, AUTH_VNC = 2, GUESSES_MAX = 20 };

struct bridge {
	int viewer;     /* its socket, non-blocking */
	size_t greeted; /* how much of the server's greeting has come */
	bool viewer_left;
};

/* Gives up when a signal comes. */
static struct op until_signal(double seconds)
{
	struct op op = {.cancel_fd = signals_fd(), .deadline_ns = OP_NO_DEADLINE};

	return seconds > 0 ? op_within(&op, seconds) : op;
}

static int send_all(int fd, struct bytes data, struct err *e)
{
	struct op op = until_signal(0);

	while (data.len) {
		ssize_t n = send(fd, data.p, data.len, MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN) {
			if (op_wait_fd(&op, fd, POLLOUT, e) < 0)
				return -1;
			continue;
		}
		if (n < 0 && errno != EINTR)
			return err_sys(e, errno, "the viewer");
		if (n > 0) {
			data.p += n;
			data.len -= (size_t)n;
		}
	}
	return 0;
}

/* Swallows the server's greeting; the rest is the viewer's. */
static int take_piece(void *arg, enum call_stream stream, struct bytes data, struct err *e)
{
	struct bridge *b = arg;

	(void)stream;
	for (; b->greeted < GREETING_LEN && data.len; b->greeted++, data.p++, data.len--)
		if (*data.p != (uint8_t)GREETING[b->greeted])
			return err_set(
				e, ERR_BACKEND, "the VM's VNC server greets in an unknown way");
	if (send_all(b->viewer, data, e) == 0)
		return 0;
	b->viewer_left = true;
	return -1;
}

/* 1: the viewer knows the password. 0: it does not. */
static int greet_viewer(int fd, const char *password, struct err *e)
{
	struct op op = until_signal(GREETING_SECONDS);
	uint8_t theirs[VNC_CHALLENGE], challenge[VNC_CHALLENGE], right[VNC_CHALLENGE];
	static const uint8_t kinds[] = {1, AUTH_VNC}, fine[4], wrong[] = {0, 0, 0, 1, 0, 0, 0, 0};
	bool same;

	if (getrandom(challenge, sizeof(challenge), 0) != sizeof(challenge))
		return err_sys(e, errno, "getrandom");
	vnc_answer(password, challenge, right);
	if (io_write_all(&op, fd, VERSION, VERSION_LEN, e) < 0 ||
		io_read_exact(&op, fd, theirs, VERSION_LEN, e) < 0)
		return -1;
	if (memcmp(theirs, VERSION, VERSION_LEN) != 0)
		return err_set(e, ERR_INVALID, "the viewer does not speak RFB 3.8");
	if (io_write_all(&op, fd, kinds, sizeof(kinds), e) < 0 ||
		io_read_exact(&op, fd, theirs, 1, e) < 0)
		return -1;
	if (theirs[0] != AUTH_VNC)
		return err_set(e, ERR_INVALID, "the viewer wants no password");
	if (io_write_all(&op, fd, challenge, sizeof(challenge), e) < 0 ||
		io_read_exact(&op, fd, theirs, sizeof(theirs), e) < 0)
		return -1;
	same = memcmp(theirs, right, sizeof(right)) == 0;
	if (io_write_all(&op, fd, same ? fine : wrong, same ? sizeof(fine) : sizeof(wrong), e) < 0)
		return -1;
	return same;
}

static int serve_viewer(struct cli *cli, json_t *args, int fd, struct err *e)
{
	static const uint8_t hello[] = VERSION "\1"; /* as the viewer would say it */
	struct bridge b = {.viewer = fd};
	struct call call = {.op = "screen",
		.args = args,
		.blob = {hello, VERSION_LEN + 1},
		.stream_input = true,
		.input_fd = fd,
		.data = take_piece,
		.arg = &b};

	if (cli_call(cli, &call, NULL, e) == 0 || b.viewer_left)
		return 0;
	return signals_seen() ? 0 : -1;
}

static int open_port(struct sockaddr_in *ret, int *ret_fd, struct err *e)
{
	auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = sizeof(*ret);

	*ret = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (fd < 0 || bind(fd, (struct sockaddr *)ret, sizeof(*ret)) < 0 || listen(fd, 4) < 0 ||
		getsockname(fd, (struct sockaddr *)ret, &len) < 0)
		return err_sys(e, errno, "a port for viewers");
	*ret_fd = take_fd(&fd);
	return 0;
}

static int make_password(char ret[VNC_PASSWORD + 1], struct err *e)
{
	static const char letters[] = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789";
	uint8_t random[VNC_PASSWORD];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_sys(e, errno, "getrandom");
	for (int i = 0; i < VNC_PASSWORD; i++)
		ret[i] = letters[random[i] % (sizeof(letters) - 1)];
	ret[VNC_PASSWORD] = 0;
	return 0;
}

static int announce(
	struct cli *cli, const struct sockaddr_in *at, const char *password, struct err *e)
{
	auto_json json_t *doc = NULL;
	int port = ntohs(at->sin_port);

	if (!cli->json) {
		printf("127.0.0.1:%d password %s\n", port, password);
		fflush(stdout);
		return 0;
	}
	if (json_make(&doc, e, "{s:s, s:i, s:s}", "address", "127.0.0.1", "port", port, "password",
		    password) < 0)
		return -1;
	return print_json(&cli->screen, doc, e);
}

/* Deals with a viewer, from its connection to its end, and counts wrong passwords in turn. Fails if
 * there is nothing more to see. */
static int welcome(struct cli *cli, json_t *args, int listener, const char *password, int *guesses,
	struct err *e)
{
	auto_fd int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct err why;
	int known, on = 1;

	if (fd < 0)
		return 0; /* it has gone already */
	/* Keys are small, and wait for nothing. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	known = greet_viewer(fd, password, &why);
	if (known < 0 && !signals_seen())
		cli_note(cli, "%s", why.msg);
	if (known == 0) {
		cli_note(cli, "a viewer had a wrong password");
		++*guesses;
	}
	if (known <= 0)
		return 0;
	*guesses = 0;
	return serve_viewer(cli, args, fd, e);
}

static int cmd_screen_run(struct cli *cli, struct err *e)
{
	auto_json json_t *args = cli_target(cli, cli->args->operands[0], e);
	auto_json json_t *look = NULL;
	char password[VNC_PASSWORD + 1];
	struct sockaddr_in at;
	auto_fd int listener = -1;
	struct err ended;
	int guesses = 0;

	if (!args)
		return -1;
	/* Without a display, say so now and not to the viewer. */
	look = json_copy(args);
	if (!look || json_object_set_new(look, "region", json_pack("[i, i, i, i]", 0, 0, 1, 1)) < 0)
		return err_oom(e);
	if (cli_request(cli, "screenshot", take_ptr(&look), NULL, e) < 0)
		return -1;
	if (args_has(cli->args, "control") && json_object_set_new(args, "control", json_true()) < 0)
		return err_oom(e);
	if (open_port(&at, &listener, e) < 0 || make_password(password, e) < 0 ||
		announce(cli, &at, password, e) < 0)
		return -1;
	while (!signals_seen() && guesses < GUESSES_MAX) {
		struct op op = until_signal(0);

		if (op_wait_fd(&op, listener, POLLIN, &ended) < 0)
			break;
		if (welcome(cli, args, listener, password, &guesses, e) < 0)
			return -1;
	}
	if (guesses == GUESSES_MAX)
		return err_set(e, ERR_PERMISSION, "%d times in turn a viewer had a wrong password",
			GUESSES_MAX);
	return EXIT_OK;
}

static const struct opt screen_opts[] = {
	{0, "vm", "NAME", "of this VM of the sandbox"},
	{0, "control", NULL, "viewers may type and use the pointer; this is recorded"},
	{0},
};

const struct cmd cmd_screen = {
	.name = "screen",
	.group = "Sandboxes:",
	.synopsis = "SANDBOX",
	.summary = "show a VM's screen to VNC viewers, until interrupted",
	.about =
		"It prints an address and a password, and waits for viewers, one after the other.\n"
		"The port is on the loopback interface, and is gone with the command. The VM "
		"needs\n"
		"a graphics card (`vga: std` in the spec).",
	.examples = "  moat screen 3f9c\n"
		    "  moat screen --control --vm desktop 3f9c",
	.opts = screen_opts,
	.min = 1,
	.max = 1,
	.operand = OPERAND_SANDBOX,
	.flags = CMD_JSON,
	.run = cmd_screen_run,
};
