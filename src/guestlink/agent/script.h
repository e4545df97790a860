/*
 * agent-script.h - the shell scripts of the plain agent's way. For any POSIX shell with the usual
 * tools, busybox included. Values reach them as arguments, never as text of the script.
 */
#pragma once

/*
 * As root: TAG USER CWD TAIL_MAX ENV_AND_ARGV..., the last as `env -i` takes them. Runs it as the
 * user, keeps the output in files (a background process that holds a pipe open would hold up the
 * agent), prints the tails, and then on stderr "\nTAG end CODE STDOUT_BYTES STDERR_BYTES\n", or
 * "\nTAG user|cwd|exec ERRNO TEXT\n" if it did not start.
 */
extern const char agent_script_run[];
/* In front of the command, with its environment: TAG ARGV... */
extern const char agent_script_last[];
/* TAG PID: kills all descendants of PID and all that carry the tag in their environment. */
extern const char agent_script_kill[];

/* As the user, in the directory. They end with 100 + errno where they can tell. */
extern const char agent_script_read[];    /* PATH OFFSET COUNT; "SIZE HEXMODE\n" on stderr */
extern const char agent_script_write[];   /* PATH MODE|"" PARENTS(0|1) APPEND(0|1), stdin */
extern const char agent_script_mkdir[];   /* PATH MODE|"" */
extern const char agent_script_symlink[]; /* PATH TARGET */
/*
 * PATH. Lines "HEXMODE SIZE MTIME\n", an empty line, then for each NAME NUL TARGET NUL; for
 * anything but a directory one, with an empty name.
 */
extern const char agent_script_list[];
