/* pty.h - a pseudo-terminal for a command. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Both CLOEXEC, the master nonblocking, the slave owned by uid. 0 or an errno. */
int pty_open(uid_t uid, int *ret_master, int *ret_slave);
void pty_resize(int master, uint16_t rows, uint16_t cols);
pid_t pty_foreground(int master); /* process group; 0 if there is none */
pid_t pty_session(int master);    /* 0 if there is none */
uint8_t pty_eof_char(int master);
