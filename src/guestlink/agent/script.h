/*
 * script.h - the shell scripts of scripts/, which the plain agent runs in a guest. Each script says
 * in its first lines what it takes and does. They need a POSIX shell and the usual tools; busybox
 * is enough. Values are passed as arguments, never as text of the script. The build makes
 * these strings of the files (tools/embed.py).
 */
#pragma once

extern const char agent_script_run[], agent_script_last[], agent_script_kill[];
extern const char agent_script_read[], agent_script_write[], agent_script_list[];
extern const char agent_script_mkdir[], agent_script_symlink[];
extern const char agent_script_find_runner[], agent_script_start_runner[];
