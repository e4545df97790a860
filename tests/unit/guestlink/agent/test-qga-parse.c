/* Answers of genuine agents, on Linux and on Windows. */
#include "guestlink/agent/qga-parse.h"

#include <errno.h>

#include "tap.h"

static struct err said(const char *text)
{
	struct err e;

	err_set(&e, ERR_BACKEND, "guest agent: %s", text);
	return e;
}

static void programs(void)
{
	struct err no_program =
			   said("Failed to execute child process \xe2\x80\x9c/none\xe2\x80\x9d "
				"(No such file or directory)"),
		   too_long =
			   said("Failed to execute child process \xe2\x80\x9c/bin/sh\xe2\x80\x9d "
				"(Argument list too long)"),
		   no_file = said("failed to open file '/none' (mode: 'r'): No such file or "
				  "directory");

	OK(qga_says_no_program(&no_program));
	OK(!qga_says_no_program(&no_file));
	OK(qga_says_too_long(&too_long));
	OK(!qga_says_too_long(&no_program));
	no_program.kind = ERR_UNAVAILABLE;
	OK(!qga_says_no_program(&no_program)); /* not a message of the agent */
}

static void files(void)
{
	static const struct {
		const char *text;
		int eno;
	} known[] = {
		{"failed to open file 'C:\\none' (mode: 'r'): No such file or directory", ENOENT},
		{"The system cannot find the path specified.", ENOENT},
		{"The system cannot find the file specified.", ENOENT},
		{"failed to open file 'C:\\Windows' (mode: 'r'): Permission denied", EACCES},
		{"Access is denied.", EACCES},
		{"failed to open file '/etc' (mode: 'w'): Is a directory", EISDIR},
		{"The process cannot access the file because it is being used by another process.",
			EBUSY},
		{"The filename, directory name, or volume label syntax is incorrect.", EINVAL},
		{"There is not enough space on the disk.", ENOSPC},
		{"failed to seek file, handle 1000 has not been found", 0},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		struct err e = said(known[i].text);

		tap_ok(qga_says_errno(&e) == known[i].eno, "%s", known[i].text);
	}
}

int main(void)
{
	programs();
	files();
	return tap_done();
}
