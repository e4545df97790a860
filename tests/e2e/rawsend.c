/*
 * rawsend INTERFACE: sends each line of its input, a frame in hexadecimal, as it is. Runs in guests
 * of the escape test, so it is static. Says how many were sent.
 */
#include <errno.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { FRAME_MAX = 1600 };

static size_t from_hex(const char *line, unsigned char *frame)
{
	size_t n = 0;
	unsigned value;

	while (n < FRAME_MAX && sscanf(line + 2 * n, "%2x", &value) == 1)
		frame[n++] = (unsigned char)value;
	return n;
}

int main(int argc, char **argv)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET};
	static char line[2 * FRAME_MAX + 2];
	unsigned char frame[FRAME_MAX];
	unsigned sent = 0;
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	to.sll_ifindex = argc == 2 ? (int)if_nametoindex(argv[1]) : 0;
	if (fd < 0 || !to.sll_ifindex || bind(fd, (struct sockaddr *)&to, sizeof(to)) < 0) {
		fprintf(stderr, "rawsend: %s\n", strerror(errno));
		return 1;
	}
	while (fgets(line, sizeof(line), stdin)) {
		/* Not all at once: what a full queue drops would prove nothing. */
		struct timespec while_sending = {.tv_nsec = 2000000};
		size_t n = from_hex(line, frame);

		if (send(fd, frame, n, 0) != (ssize_t)n) {
			fprintf(stderr, "rawsend: frame %u: %s\n", sent, strerror(errno));
			return 1;
		}
		sent++;
		nanosleep(&while_sending, NULL);
	}
	printf("%u\n", sent);
	return 0;
}
