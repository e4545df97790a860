/* The life of a sandbox of the Vagrant driver, with a script in the place of `vagrant`: what only
 * goes wrong when a guest does not answer. tests/vagrant has the real one. */
#include "driver/vagrant/sandbox.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "tap.h"

#include "scratch.h"
#include "util/system/guard.h"
#include "util/json.h"
#include "util/str.h"

#define ID "0123456789"

/* The script notes machines in Vagrant's files. They are at a port where nothing listens. */
static const char fake_vagrant[] =
	"#!/bin/sh\n"
	"echo \"$*\" >>\"$FAKE/calls\"\n"
	"case $1 in\n"
	"up)\n"
	"\tls -A . .. >\"$FAKE/seen\"\n"
	"\tfor machine in $FAKE_MACHINES; do\n"
	"\t\tmkdir -p \".vagrant/machines/$machine/fake\"\n"
	"\t\techo 1 >\".vagrant/machines/$machine/fake/id\"\n"
	"\t\techo \"1,$machine,metadata,provider,fake\"\n"
	"\t\techo \"1,$machine,moat-ssh,127.0.0.1,$FAKE_PORT,me,/no/key\"\n"
	"\t\techo \"1,$machine,action,up,end\"\n"
	"\tdone ;;\n"
	"ssh-config)\n"
	"\tcase \" $FAKE_OFF \" in *\" $2 \"*)\n"
	"\t\techo \"1,$2,error-exit,Vagrant::Errors::SSHNotReady,it is off\"\n"
	"\t\texit 1\n"
	"\tesac\n"
	"\tprintf '1,%s,ssh-config,Host x\\\\n  HostName 127.0.0.1\\\\n' \"$2\"\n"
	"\tprintf '  User me\\\\n  Port %s\\\\n  IdentityFile /no/key\\n' \"$FAKE_PORT\" ;;\n"
	"destroy)\n"
	"\t[ -z \"$FAKE_LOCKED\" ] || [ \"$FAKE_TOKEN\" = sesame ] || exit 1\n"
	"\trm -r .vagrant/machines ;;\n"
	"esac\n";

/* One that knows a domain, or seems to, and can say nothing of it. */
static const char fake_virsh[] =
	"#!/bin/sh\n"
	"case $4,$FAKE_VIRSH in\n"
	"list,down) echo 'no libvirtd' >&2; exit 1 ;;\n"
	"list,ends) [ -e \"$FAKE/listed\" ] || echo 1-2; >\"$FAKE/listed\" ;;\n"
	"list,mute) echo 1-2 ;;\n"
	"list,*) ;;\n"
	"*) echo 'it says nothing' >&2; exit 1 ;;\n"
	"esac\n";

static struct driver *driver;
static struct journal *journal;
static int taken = -1; /* a bound port: no other process gets it */
static unsigned port;

static void take_port(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(to);

	taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (taken < 0 || bind(taken, (struct sockaddr *)&to, sizeof(to)) < 0 ||
		getsockname(taken, (struct sockaddr *)&to, &len) < 0)
		abort();
	port = ntohs(to.sin_port);
}

static void begin(void)
{
	static char cache[128], no_runner[] = "/no/runner";
	static struct paths paths = {.cache = cache};
	static struct driver_env env = {.paths = &paths,
		.boot_timeout = 3600,
		.runners = {{no_runner, no_runner}},
		.ssh_path = "/no/ssh",
		.helper_path = self};
	struct err e;

	scratch_begin();
	take_port();
	snprintf(cache, sizeof(cache), "%s/cache", scratch);
	mkdir(at("bin"), 0700);
	put_file(at("bin/vagrant"), fake_vagrant);
	chmod(at("bin/vagrant"), 0700);
	put_file(at("Vagrantfile"), "# not read\n");
	if (journal_open(at("journal"), &journal, &e) < 0)
		abort();
	env.journal = journal;
	if (driver_vagrant.open(&env, &driver, &e) < 0)
		abort();
}

static void end(void)
{
	driver_vagrant.close(driver);
	journal_close(journal);
	close(taken);
	scratch_end();
}

/* ---- a sandbox ---- */

struct making {
	struct sandbox_spec *spec;
	json_t *access;
	struct op op;
	struct driver_sandbox *sandbox;
	int rc;
	struct err e;
};

/* The request of a client with these settings. native and vms become its own. */
static void prepare(struct making *m, const char *machines, json_t *native, json_t *vms)
{
	auto_json json_t *spec = NULL;
	struct err e;

	*m = (struct making){0};
	unlink(at("calls"));
	m->access = json_pack("{s:{s:o, s:s, s:s, s:o, s:s}}", "env", "PATH",
		json_sprintf("%s/bin:%s", scratch, getenv("PATH")), "FAKE", scratch,
		"FAKE_MACHINES", machines, "FAKE_PORT", json_sprintf("%u", port),
		"INSPECT_SANDBOX_CACHE_DIR", at("sandboxes"));
	json_object_set_new(native, "vagrantfile", json_string(at("Vagrantfile")));
	spec = json_pack("{s:s, s:o, s:o}", "driver", "vagrant", "native", native, "vms", vms);
	if (!m->access || !spec || spec_parse(spec, &m->spec, &e) < 0 ||
		op_init(&m->op, "test", 0, &e) < 0)
		abort();
}

static void add_env(struct making *m, const char *name, const char *value)
{
	json_object_set_new(json_object_get(m->access, "env"), name, json_string(value));
}

static void *make_main(void *arg)
{
	struct making *m = arg;
	struct sandbox_request req = {.id = ID, .spec = m->spec, .access = m->access};
	struct journal_sandbox row = {
		.id = ID, .driver = "vagrant", .labels = "{}", .spec = "{}", .created = 1};

	m->rc = journal_sandbox_add(journal, &row, &m->e) < 0
			? -1
			: driver_vagrant.create(driver, &m->op, &req, &m->sandbox, &m->e);
	if (m->rc < 0)
		printf("# %s\n", m->e.msg);
	return NULL;
}

static void done(struct making *m)
{
	struct op op = op_for_cleanup(60);
	struct err e;

	if (m->sandbox)
		OK(driver_vagrant.destroy(driver, &op, m->sandbox, &e) == 0);
	OK(entries_in(at("sandboxes")) == 0);
	spec_free(m->spec);
	json_decref(m->access);
	op_done(&m->op);
}

static bool was_called(const char *verb)
{
	auto_free char *calls = get_file(at("calls"));

	return calls && strstr(calls, verb);
}

/* ---- the tests ---- */

/* Vagrant has finished, but no connection succeeds: that is tried as long as a machine may take to
 * boot. */
static void test_cancelled_while_connecting(void)
{
	struct making m;
	pthread_t thread;

	prepare(&m, "web", json_object(), json_pack("[{}]"));
	if (pthread_create(&thread, NULL, make_main, &m))
		abort();
	OK(EVENTUALLY(was_called("ssh-config")));
	op_cancel(&m.op);
	pthread_join(thread, NULL);
	OK(m.rc < 0 && m.e.kind == ERR_CANCELLED);
	OK(was_called("destroy -f"));
	done(&m);
}

/* The machine that is for commands is off, which ends it all; the other never answers. */
static void test_nobody_waits_for_a_machine_that_only_runs(void)
{
	struct making m;

	prepare(&m, "web db", json_object(),
		json_pack("[{s:s}, {s:s, s:b}]", "name", "web", "name", "db", "is_sandbox", 0));
	add_env(&m, "FAKE_OFF", "web");
	make_main(&m);
	OK(m.rc < 0 && strstr(m.e.msg, "VM web is not running"));
	done(&m);
}

/* Vagrant shares its root with the guests, so all other files of the sandbox are beside it. */
static void test_what_a_guest_may_see(void)
{
	auto_free char *seen = NULL;
	struct making m;

	prepare(&m, "web", json_object(), json_pack("[{}]"));
	add_env(&m, "FAKE_OFF", "web");
	make_main(&m);
	seen = get_file(at("seen"));
	STR_IS(seen, ".:\nVagrantfile\nVagrantfile.moat\n\n"
		     "..:\nenv\nmoat-" ID "\nvagrant.log\n");
	done(&m);
}

static int reclaim(const json_t *access, struct err *e)
{
	struct op op = op_for_cleanup(60);
	struct journal_entry t = {.sandbox = ID,
		.kind = "vagrant",
		.ref = at("sandboxes/moat-" ID),
		.state = "intent"};

	return driver_vagrant.reclaim(driver, &op, &t, access, e);
}

/* Secrets are not written down. They come from the client that wants the machines removed, or from
 * the environment of the daemon. */
static void test_machines_that_need_a_secret(void)
{
	auto_json json_t *access = json_pack("{s:{s:s}}", "env", "FAKE_TOKEN", "sesame");

	for (int ours = 0; ours < 2; ours++) {
		auto_free char *env = NULL;
		struct making m;
		size_t len = 0;
		struct err e;

		prepare(&m, "web", json_object(), json_pack("[{}]"));
		add_env(&m, "FAKE_OFF", "web");
		add_env(&m, "FAKE_LOCKED", "yes");
		add_env(&m, "FAKE_TOKEN", "expired");
		make_main(&m);
		OK(m.rc < 0 && entries_in(at("sandboxes")) == 1);
		OK(file_read(at("sandboxes/moat-" ID "/env"), 1 << 20, &env, &len, &e) == 0);
		OK(memmem(env, len, "FAKE_LOCKED", 11) && !memmem(env, len, "expired", 7));
		if (!ours) {
			OK(reclaim(NULL, &e) < 0);
			OK(reclaim(access, &e) == 0);
		} else {
			setenv("FAKE_TOKEN", "sesame", 1);
			OK(reclaim(NULL, &e) == 0);
			unsetenv("FAKE_TOKEN");
		}
		OK(journal_sandbox_remove(journal, ID, &e) == 0);
		done(&m);
	}
}

/* Somebody has deleted the directory. Nobody says that no machine is left who could not look. */
static void test_libvirt_that_does_not_answer(void)
{
	static const struct {
		const char *virsh, *why;
	} tries[] = {{"down", "no libvirtd"}, {"mute", "it says nothing"}, {"ends", NULL},
		{"empty", NULL}};
	auto_free char *before = strdup(getenv("PATH"));
	auto_free char *path = NULL;
	struct err e;

	if (str_printf(&path, &e, "%s/bin:%s", scratch, before) < 0)
		abort();
	put_file(at("bin/virsh"), fake_virsh);
	chmod(at("bin/virsh"), 0700);
	setenv("PATH", path, 1);
	for (unsigned i = 0; i < ARRAY_LEN(tries); i++) {
		auto_json json_t *access = json_pack(
			"{s:{s:s, s:s}}", "env", "FAKE", scratch, "FAKE_VIRSH", tries[i].virsh);

		e.msg[0] = 0;
		OK((reclaim(access, &e) < 0) == (tries[i].why != NULL));
		OK(!tries[i].why || strstr(e.msg, tries[i].why));
	}
	setenv("PATH", before, 1);
}

static void remember(void *arg, const char *text, uint64_t n, uint64_t total)
{
	(void)n;
	(void)total;
	if (strstr(text, "nosuch"))
		snprintf(arg, 256, "%s", text);
}

/* The older plugin for Inspect used the first machine, so evals may rely on that. */
static void test_a_default_machine_that_there_is_not(void)
{
	for (int required = 0; required < 2; required++) {
		char said[256] = "";
		struct making m;

		prepare(&m, "web db",
			json_pack("{s:s, s:b}", "primary_vm", "nosuch", "primary_vm_required",
				required),
			json_pack("[{}]"));
		add_env(&m, "FAKE_OFF", "web db");
		m.op.on_progress = remember;
		m.op.progress_arg = said;
		make_main(&m);
		if (required) {
			OK(m.rc < 0 && strstr(m.e.msg, "no machine \"nosuch\"; it has web, db"));
			STR_IS(said, "");
		} else {
			OK(m.rc < 0 && strstr(m.e.msg, "VM web is not running"));
			OK(strstr(said, "no machine \"nosuch\"; it has web, db"));
		}
		done(&m);
	}
}

static void test_the_beginning_of_a_machine_s_name(void)
{
	struct making m;

	prepare(&m, "web db-one", json_pack("{s:s}", "primary_vm", "DB"), json_pack("[{}]"));
	add_env(&m, "FAKE_OFF", "web db-one");
	make_main(&m);
	OK(m.rc < 0 && strstr(m.e.msg, "VM db-one is not running"));
	done(&m);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "guard") == 0)
		return guard_main(argc - 1, argv + 1);
	begin();
	test_cancelled_while_connecting();
	test_nobody_waits_for_a_machine_that_only_runs();
	test_what_a_guest_may_see();
	test_machines_that_need_a_secret();
	test_libvirt_that_does_not_answer();
	test_a_default_machine_that_there_is_not();
	test_the_beginning_of_a_machine_s_name();
	end();
	return tap_done();
}
