/* How much of the host's memory control groups leave, and memory that is reserved. */
#include "util/system/memory.h"

#include <sys/mman.h>

#include "tap.h"
#include "scratch.h"

static const char meminfo[] = "MemTotal:       16384000 kB\nMemFree:  1 kB\n"
			      "MemAvailable:    2048000 kB\n\nSwapTotal: 0 kB";
enum { MB = 1 << 20 };
static const uint64_t host_total = 16000ull * MB, host_available = 2000ull * MB;

static void test_meminfo(void)
{
	OK(meminfo_bytes(meminfo, "MemTotal") == host_total);
	OK(meminfo_bytes(meminfo, "MemAvailable") == host_available);
	OK(meminfo_bytes(meminfo, "MemFree") == 1024 && meminfo_bytes(meminfo, "SwapTotal") == 0);
	OK(meminfo_bytes(meminfo, "Mem") == 0 && meminfo_bytes(meminfo, "Total") == 0);
	OK(meminfo_bytes("", "MemTotal") == 0 && meminfo_bytes("\n\n", "MemTotal") == 0);
	OK(meminfo_bytes("MemTotal: nonsense\n", "MemTotal") == 0);
	OK(meminfo_bytes(NULL, "MemTotal") == 0);
}

static void put(const char *dir, const char *name, const char *text)
{
	struct err e;

	if (dir_make(at("%s", dir), 0700, &e) < 0)
		abort();
	put_file(at("%s/%s", dir, name), text);
}

static struct memory look(const char *own_groups)
{
	struct memory m;

	put("proc", "meminfo", meminfo);
	put("proc/self", "cgroup", own_groups);
	memory_measure_in(at("proc"), at("cgroup"), &m);
	return m;
}

/* Writes the files of a version 2 group: memory used in MB, and how much of that is page cache. */
static void group_2(const char *dir, const char *max, unsigned used, unsigned files)
{
	char text[200];

	put(dir, "memory.max", max);
	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)used * MB);
	put(dir, "memory.current", text);
	snprintf(text, sizeof(text), "anon 5\ninactive_file %llu\nactive_file %llu\n",
		(unsigned long long)files * MB / 2, (unsigned long long)files * MB / 2);
	put(dir, "memory.stat", text);
}

static void test_groups(void)
{
	struct memory m = look("0::/none/of/these\n");

	OK(m.total == host_total && m.available == host_available);
	group_2("cgroup/a", "max\n", 900, 0);
	group_2("cgroup/a/b", "1048576000\n", 900, 300);
	m = look("0::/a\n");
	OK(m.total == host_total && m.available == host_available);
	m = look("0::/a/b\n");
	OK(m.total == 1000ull * MB && m.available == 400ull * MB);
	m = look("0::/a/b/c/d\n"); /* a limit of a parent group counts too */
	OK(m.available == 400ull * MB);
	group_2("cgroup/a/b/c", "524288000\n", 550, 0);
	m = look("0::/a/b/c\n");
	OK(m.total == 500ull * MB && m.available == 0);
	group_2("cgroup", "2097152000\n", 100, 0); /* as a container sees its own group */
	m = look("0::/\n");
	OK(m.total == 2000ull * MB && m.available == 1900ull * MB);
	m = look("0::/system.slice/not-here\n");
	OK(m.available == 1900ull * MB);

	put("cgroup/memory/x", "memory.limit_in_bytes", "838860800\n");
	put("cgroup/memory/x", "memory.usage_in_bytes", "209715200\n");
	put("cgroup/memory/x", "memory.stat", "inactive_file 1\ntotal_inactive_file 104857600\n");
	m = look("9:name=systemd:/a/b\n4:memory:/x\n1:cpu:/a\nnonsense\n:\n::\n");
	OK(m.total == 800ull * MB && m.available == 700ull * MB);
	put("cgroup/memory/x", "memory.limit_in_bytes", "9223372036854771712\n");
	m = look("4:memory:/x");
	OK(m.total == host_total && m.available == host_available);
	put("cgroup/memory/x", "memory.usage_in_bytes", "");
	m = look("4:memory:/x");
	OK(m.available == host_available);
}

static void test_take(void)
{
	struct op op = op_for_cleanup(60);
	auto_fd int fd = memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct stat st;
	struct err e;

	if (fd < 0 || ftruncate(fd, 40 * MB) < 0 || pwrite(fd, "x", 1, 20 * MB) != 1)
		abort();
	OK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) == 0);
	OK(memory_backs(fd));
	OK(memory_reserve(&op, fd, 40 * MB, "a test", &e) == 0);
	OK(fstat(fd, &st) == 0 && st.st_size == 40 * MB && st.st_blocks == 40 * MB / 512);
	OK(memory_reserve(&op, fd, 40 * MB, "a test", &e) == 0);
	/* Memory is checked first: of a size that is not available, nothing is taken. */
	OK(memory_reserve(&op, fd, (uint64_t)1 << 50, "a test", &e) < 0 && e.kind == ERR_LIMIT);
	OK(err_is_shortage(&e) &&
		strstr(e.msg, "not enough memory for a test: it takes 1073741784"));
	OK(fstat(fd, &st) == 0 && st.st_blocks == 40 * MB / 512);
}

static void test_victim(void)
{
	char *first, *later;

	memory_victim(0, MEMORY_VICTIM_LATER);
	later = get_file("/proc/self/oom_score_adj");
	memory_victim(getpid(), MEMORY_VICTIM_FIRST);
	first = get_file("/proc/self/oom_score_adj");
	OK(later && first && atoi(later) > 0 && atoi(later) < 1000 && atoi(first) == 1000);
	free(later);
	free(first);
}

int main(void)
{
	struct memory m;

	scratch_begin();
	test_meminfo();
	test_groups();
	memory_measure(&m);
	OK(m.total > 0 && m.available > 0 && m.available <= m.total);
	test_take();
	test_victim();
	scratch_end();
	return tap_done();
}
