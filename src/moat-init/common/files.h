/* files.h - the console, files of the kernel, directories. */
#pragma once

/* Opens the console, once there is a /dev. */
void say_open(void);
/* Says a line on it, which the host's log of it has. */
__attribute__((format(printf, 1, 2))) void say(const char *fmt, ...);
/* Writes text into a file that is there, such as the kernel's. 0 or an errno. */
int put_text(const char *path, const char *text);
/* Makes a directory and those above it. 0 or an errno. */
int make_dirs(const char *path);
