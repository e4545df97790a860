#include "guest/agent-script.h"

/* clang-format off */
const char agent_script_run[] =
	"t=$1 u=$2 d=$3 m=$4; shift 4\n"
	"no() { printf '\\n%s %s %s %s\\n' \"$t\" \"$1\" \"$2\" \"$3\" >&2; exit 125; }\n"
	/* u=name i=uid g=gid h=home s=shell of the user */
	"find_user() { while IFS=: read -r a x i g x h s; do\n"
	"  if [ \"$a\" = \"$u\" ] || [ \"$i\" = \"$u\" ]; then return 0; fi; done; return 1; }\n"
	"u=${u:-0}\n"
	"if find_user </etc/passwd; then :\n"
	"elif p=$(getent passwd \"$u\" 2>/dev/null) && [ -n \"$p\" ]; then\n"
	"  IFS=: read -r a x i g x h s <<E\n$p\nE\n"
	"else case $u in\n"
	"  0) a=root i=0 g=0 h=/root s=/bin/sh ;;\n"
	"  *[!0-9]*) no user 2 \"no such user: $u\" ;;\n"
	"  *) a= i=$u g=65534 h=/ s=/bin/sh ;;\n"
	"  esac; fi\n"
	"k=$(mktemp -d /tmp/moat.XXXXXX 2>/dev/null || mktemp -d /dev/shm/moat.XXXXXX) ||\n"
	"  no exec 28 'no place for temporary files'\n"
	"trap 'rm -rf \"$k\"' EXIT\n"
	/* As the user: TAG CWD HOME NAME SHELL ENV_AND_ARGV... */
	"r='t=$1 d=$2 h=$3 a=$4 s=$5; shift 5\n"
	"no() { printf \"\\n%s cwd %s %s\\n\" \"$t\" \"$1\" \"$d: $2\" >&2; exit 125; }\n"
	"cd \"$h\" 2>/dev/null || cd /\n"
	"if [ -n \"$d\" ] && ! cd \"$d\" 2>/dev/null; then\n"
	"  [ -e \"$d\" ] || no 2 \"No such file or directory\"\n"
	"  [ -d \"$d\" ] || no 20 \"Not a directory\"\n"
	"  no 13 \"Permission denied\"\n"
	"fi\n"
	"exec env -i HOME=\"$h\" SHELL=\"$s\" ${a:+USER=\"$a\" LOGNAME=\"$a\"} \"$@\"'\n"
	"set -- \"$t\" \"$d\" \"$h\" \"$a\" \"${s:-/bin/sh}\" \"$@\"\n"
	/* A shell whose child was killed says so on its own stderr: not ours to pass on. */
	"exec 3>&2 2>/dev/null\n"
	"( exec 3>&-\n"
	"if [ \"$i\" = \"$(id -u)\" ]; then exec /bin/sh -c \"$r\" sh \"$@\"\n"
	"elif setpriv --reuid 0 --clear-groups true 2>/dev/null; then\n"
	"  o=--init-groups; [ -n \"$a\" ] || o=--clear-groups\n"
	"  exec setpriv --reuid \"$i\" --regid \"$g\" $o /bin/sh -c \"$r\" sh \"$@\"\n"
	"elif [ -n \"$a\" ] && command -v su >/dev/null; then\n"
	"  exec su -s /bin/sh -c \"$r\" -- \"$a\" sh \"$@\"\n"
	"else no user 38 'the guest has neither setpriv nor a su that can switch to this user'\n"
	"fi ) >\"$k/o\" 2>\"$k/e\"\n"
	"c=$?\n"
	"exec 2>&3 3>&-\n"
	"tail -c \"$m\" \"$k/o\"; tail -c \"$m\" \"$k/e\" >&2\n"
	"printf '\\n%s end %s %s %s\\n' \"$t\" \"$c\" $(wc -c <\"$k/o\") $(wc -c <\"$k/e\") >&2\n";

const char agent_script_last[] =
	"t=$1; shift\n"
	"no() { printf '\\n%s exec %s %s\\n' \"$t\" \"$1\" \"$2\" >&2; exit 125; }\n"
	"case $1 in\n"
	"*/*) [ -e \"$1\" ] || no 2 \"$1: No such file or directory\"\n"
	"  [ -x \"$1\" ] && [ ! -d \"$1\" ] || no 13 \"$1: Permission denied\" ;;\n"
	"*) command -v -- \"$1\" >/dev/null 2>&1 || no 2 \"$1: No such file or directory\" ;;\n"
	"esac\n"
	"exec \"$@\"\n";

const char agent_script_kill[] =
	"t=$1 p=$2\n"
	"n=0; while [ $n -lt 20 ]; do n=$((n+1))\n"
	"  d=\" $p \" v=\n"
	/* A pass finds children; another their children, until nothing is new. */
	"  while :; do o=$d\n"
	"    for f in /proc/[0-9]*/stat; do\n"
	"      { read -r l <\"$f\"; } 2>/dev/null || continue\n"
	"      q=${f#/proc/}; q=${q%/stat}; set -- ${l##*) }\n"
	"      [ \"$1\" = Z ] && continue\n"
	"      case $d in *\" $q \"*) continue ;; *\" $2 \"*) d=\"$d$q \" v=\"$v $q\" ;; esac\n"
	"    done\n"
	"    [ \"$o\" = \"$d\" ] && break\n"
	"  done\n"
	"  for f in $(grep -ls \"MOAT_EXEC=$t\" /proc/[0-9]*/environ 2>/dev/null); do\n"
	"    q=${f#/proc/}; v=\"$v ${q%/environ}\"\n"
	"  done\n"
	"  [ -n \"$v\" ] || exit 0\n"
	"  kill -9 $v 2>/dev/null\n"
	"done\n"
	"exit 1\n";

/* A name that looks like an option is none. */
#define TAKE_PATH "p=$1; case $p in -*) p=./$p ;; esac\n"
#define REFUSE_UNREADABLE \
	TAKE_PATH \
	"[ -e \"$p\" ] || [ -L \"$p\" ] || { q=${p%/*}\n" \
	"  [ \"$q\" = \"$p\" ] || [ -z \"$q\" ] || [ -x \"$q\" ] || [ ! -d \"$q\" ] || exit 113\n" \
	"  exit 102; }\n"

const char agent_script_read[] =
	REFUSE_UNREADABLE
	"[ -d \"$p\" ] && exit 121\n"
	"[ -r \"$p\" ] || exit 113\n"
	"stat -L -c '%s %f' -- \"$p\" >&2 || exit 1\n"
	"if [ \"$2\" = 0 ]; then head -c \"$3\" \"$p\"\n"
	"else tail -c \"+$(($2+1))\" \"$p\" | head -c \"$3\"; fi\n";

const char agent_script_write[] =
	TAKE_PATH
	"umask 022; q=${p%/*}\n"
	"if [ \"$q\" != \"$p\" ] && [ -n \"$q\" ]; then\n"
	"  if [ \"$3\" = 1 ]; then\n"
	"    mkdir -p -- \"$q\" || { [ -e \"$q\" ] && [ ! -d \"$q\" ] && exit 120; exit 113; }\n"
	"  elif [ ! -d \"$q\" ]; then exit 102; fi\n"
	"fi 2>/dev/null\n"
	"[ -d \"$p\" ] && exit 121\n"
	"if [ -e \"$p\" ]; then [ -w \"$p\" ] || exit 113\n"
	"else q=${p%/*}; [ \"$q\" = \"$p\" ] && q=.; [ -w \"${q:-/}\" ] || exit 113; fi\n"
	"if [ \"$4\" = 1 ]; then cat >>\"$p\"; else cat >\"$p\"; fi || exit 1\n"
	"[ -z \"$2\" ] || chmod \"$2\" \"$p\"\n";

const char agent_script_mkdir[] =
	TAKE_PATH
	"umask 022\n"
	"[ -d \"$p\" ] && exit 0\n"
	"[ -e \"$p\" ] && exit 117\n"
	"mkdir -p -- \"$p\" || exit 1\n"
	"[ -z \"$2\" ] || chmod \"$2\" \"$p\"\n";

const char agent_script_symlink[] =
	TAKE_PATH
	"{ [ -e \"$p\" ] || [ -L \"$p\" ]; } && exit 117\n"
	"ln -s -- \"$2\" \"$p\"\n";

const char agent_script_list[] =
	REFUSE_UNREADABLE
	"l() { [ ! -L \"$1\" ] || readlink \"$1\" | tr -d '\\n'; printf '\\0'; }\n"
	"e() { for f; do printf '%s\\0' \"${f##*/}\"; l \"$f\"; done; }\n"
	"if [ ! -d \"$p\" ]; then stat -c '%f %s %Y' -- \"$p\" || exit 1\n"
	"  printf '\\n\\0'; l \"$p\"; exit 0; fi\n"
	"{ [ -r \"$p\" ] && [ -x \"$p\" ]; } || exit 113\n"
	"case $p in /*) ;; *) p=./$p ;; esac\n"
	"set --\n"
	"for f in \"$p\"/* \"$p\"/.[!.]* \"$p\"/..?*; do\n"
	"  { [ -e \"$f\" ] || [ -L \"$f\" ]; } && set -- \"$@\" \"$f\"; done\n"
	"[ $# = 0 ] || stat -c '%f %s %Y' \"$@\" || exit 1\n"
	"echo; e \"$@\"\n";
/* clang-format on */
