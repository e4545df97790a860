/*
 * service.h - what the host tells the guest's init of a service: a record of keys and values, each
 * a string with its NUL. Host and guest both compile this. Pure.
 */
#pragma once

/* How the host finds the init in a guest: it is process 1, and has no path there. */
#define SERVICE_CTL "/proc/1/exe"

enum { SERVICE_RECORD_MAX = 4 << 20 };

/* Keys that may come several times are marked with *. A value that makes no sense fails the record.
 */
#define SERVICE_ARG         "arg"         /* * a word of the command */
#define SERVICE_ENV         "env"         /* * NAME=value */
#define SERVICE_CWD         "cwd"         /* absolute; made if it is missing */
#define SERVICE_USER        "user"        /* USER[:GROUP], names or numbers */
#define SERVICE_RESTART     "restart"     /* no, always, on-failure */
#define SERVICE_RESTART_MAX "restart-max" /* of on-failure; 0: no limit */
#define SERVICE_STOP_SIGNAL "stop-signal" /* a number */
#define SERVICE_LIMIT       "limit"       /* * NAME SOFT HARD, as ulimits of containers; -1: none */
#define SERVICE_ADDRESSES   "addresses"   /* how many NICs will get an address by DHCP */
#define SERVICE_HOSTNAME    "hostname"
#define SERVICE_HOST        "host"      /* * ADDRESS NAME, for /etc/hosts */
#define SERVICE_SHM_MB      "shm-mb"    /* the size of /dev/shm */
#define SERVICE_TMPFS       "tmpfs"     /* * OPTIONS PATH; OPTIONS as of mount, "-" for none */
#define SERVICE_VOLUME      "volume"    /* * a directory that must exist */
#define SERVICE_READ_ONLY   "read-only" /* * a path that cannot be written to */
#define SERVICE_SYSCTL      "sysctl"    /* * NAME=VALUE */

/* How the tool ends. */
enum service_exit {
	SERVICE_DONE,
	SERVICE_FAILED,     /* the last line on stderr says why */
	SERVICE_CANNOT_RUN, /* likewise: the command cannot be started */
};
