#include "driver/vagrant/parse.h"

#include "tap.h"
#include "util/auto.h"
#include "util/system/io.h"

static struct vagrant_report report;

static void feed(const char *text)
{
	auto_free char *copy = strdup(text);
	char *rest = NULL;

	report = (struct vagrant_report){0};
	for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		vagrant_report_line(&report, line);
}

static struct err why(const char *output, const char *complaint)
{
	struct err e = {0};

	feed(output);
	vagrant_report_fail(&report, 1, complaint, "vagrant up", &e);
	return e;
}

static void test_lines(void)
{
	char plain[] = "1,web,ui,info,==> web: a%!(VAGRANT_COMMA) b\\nc";
	char few[] = "12,web";
	char words[] = "Ruby says: no";
	char empty[] = "";
	char many[] = "1,t,x,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18";
	struct vagrant_line l;

	OK(vagrant_line_parse(plain, &l));
	STR_IS(l.target, "web");
	STR_IS(l.type, "ui");
	OK(l.n_data == 2);
	STR_IS(l.data[1], "==> web: a, b\nc");
	OK(!vagrant_line_parse(few, &l));
	OK(!vagrant_line_parse(words, &l));
	OK(!vagrant_line_parse(empty, &l));
	OK(vagrant_line_parse(many, &l) && l.n_data == VAGRANT_FIELDS_MAX);
}

/* Output of Vagrant 2.3.4 with vagrant-libvirt. */
static void test_recorded_up(void)
{
	auto_free char *text = NULL;
	const struct vagrant_machine *m;
	struct err e;

	OK(file_read(VAGRANT_GOLDEN "/up.out", 1 << 20, &text, NULL, &e) == 0);
	feed(text);
	OK(report.n_machines == 1);
	m = &report.machines[0];
	STR_IS(m->name, "default");
	STR_IS(m->provider, "libvirt");
	OK(m->actions == 1);
	STR_IS(m->ssh.host, "192.168.121.197");
	STR_IS(m->ssh.user, "vagrant");
	OK(m->ssh.port == 22 && m->ssh.n_keys == 1);
	STR_IS(m->ssh.keys[0], "/lab/vagrant.d/insecure_private_key");
	OK(!report.error[0] && !report.error_class[0]);
	STR_IS(report.messages[(report.n_messages - 1) % VAGRANT_MESSAGES_KEPT].text,
		"Machine booted and ready!");
}

static void test_progress(void)
{
	char line[] = "1,web,ui,info,==> web: Starting domain.";
	char setting[] = "1,web,ui,info,==> web:  -- Memory:  160M";
	char escape[] = "1,web,ui,detail,    web: \033[31mred";

	report = (struct vagrant_report){0};
	vagrant_report_line(&report, line);
	STR_IS(report.progress, "web: Starting domain.");
	vagrant_report_line(&report, setting);
	STR_IS(report.progress, "");
	vagrant_report_line(&report, escape);
	STR_IS(report.progress, "web: \\x1b[31mred");
}

static void test_order(void)
{
	feed("1,web,metadata,provider,libvirt\n1,db,metadata,provider,libvirt\n"
	     "1,db,action,up,start\n1,web,state,running\n1,,ui,info,hello\n");
	OK(report.n_machines == 2);
	STR_IS(report.machines[0].name, "web");
	STR_IS(report.machines[0].state, "running");
	STR_IS(report.machines[1].name, "db");
	OK(vagrant_report_machine(&report, "nobody") == NULL);
}

static void test_errors(void)
{
	struct err e =
		why("1,,ui,error,The sandbox 'x' could not be found.\\nTry again.\n"
		    "1,,error-exit,Vagrant::Errors::BoxNotFound,The sandbox 'x' could not be "
		    "found.\\nTry again.\n",
			"");

	STR_IS(e.msg, "vagrant up: The sandbox 'x' could not be found. Try again.");
	OK(e.kind == ERR_NOT_FOUND && e.sys == 1);
	e = why("1,web,ui,output,==> web: Running provisioner: shell...\n"
		"1,web,ui,info,    web: installing\n1,web,ui,info,    web: E: no such package\n"
		"1,,error-exit,Vagrant::Errors::VagrantBadExitStatus,The SSH command responded "
		"with "
		"a non-zero exit status.\n",
		"");
	OK(strstr(e.msg, "non-zero exit status"));
	OK(strstr(e.msg, "installing | E: no such package"));
	e = why("", "/srv/Vagrantfile:3:in `block': undefined method `foo' for nil:NilClass "
		    "(NoMethodError)\n\tfrom /usr/lib/x.rb:3\n\tfrom y\n");
	STR_IS(e.msg, "vagrant up: undefined method `foo' for nil:NilClass (NoMethodError)");
	e = why("", "There is a syntax error in the following Vagrantfile.\n\n/srv/Vagrantfile:3: "
		    "syntax error, unexpected end\n");
	OK(strstr(e.msg, "/srv/Vagrantfile:3: syntax error, unexpected end"));
	e = why("1,web,ui,info,==> web: it went\n", "");
	STR_IS(e.msg, "vagrant up: it went - it failed without saying why");
	e = why("", "");
	STR_IS(e.msg, "vagrant up: it failed without saying why");
}

/* Output of Vagrant 2.3.4: two machines go up together, and the provisioner of one fails. */
static void test_provisioner_of_one_machine(void)
{
	struct err e = why(
		"1,two,ui,detail,    two: Running: inline script\n"
		"1,two,ui,detail,    two: E: no such package\n"
		"1,one,ui,detail,    one: all is well\n"
		"1,two,ui,detail,    two: giving up\n"
		"1,one,ui,detail,    one: still\n"
		"1,two,ui,error,==> two: An error occurred. The error will be shown after all "
		"tasks complete.\n"
		"1,,error-exit,Vagrant::Errors::BatchMultiError,An error occurred while executing "
		"multiple actions in parallel.\\nAny errors that occurred are shown below.\\n\\n"
		"An error occurred while executing the action on the 'two'\\nmachine. Please "
		"handle this error then try again:\\n\\nThe SSH command responded with a non-zero "
		"exit status. The output for this command\\nshould be in the log above.\n",
		"");

	STR_IS(e.msg, "vagrant up: two: Running: inline script | E: no such package | giving up - "
		      "The SSH "
		      "command responded with a non-zero exit status. The output for this command "
		      "should be "
		      "in the log above.");
}

static void test_causes_that_vagrant_hides(void)
{
	struct err e = why("1,,ui,warn,Vagrant has detected project local plugins configured for "
			   "this\\nproject "
			   "which are not installed.\\n\\n  vagrant-nosuch\n",
		"Vagrant failed to initialize at a very early stage:\n\nVagrant is attempting to "
		"interface with the UI in a way that requires\na TTY.\n");

	OK(strstr(e.msg, "which are not installed. vagrant-nosuch"));
	e = why("1,web,moat-hint,the box lab that is here is for virtualbox%!(VAGRANT_COMMA) and "
		"the "
		"machine is for libvirt\n"
		"1,,error-exit,Vagrant::Errors::DownloaderError,Couldn't open file /srv/lab\n",
		"");
	STR_IS(e.msg, "vagrant up: Couldn't open file /srv/lab (the box lab that is here is for "
		      "virtualbox, and the machine is for libvirt)");
}

static void test_long_error(void)
{
	char text[4096], line[5000];
	struct err e;

	memset(text, 'x', sizeof(text));
	memcpy(text, "The beginning ", 14);
	memcpy(text + 4000, " and the real cause", 20);
	snprintf(line, sizeof(line), "1,,error-exit,Vagrant::Errors::Any,%s\n", text);
	e = why(line, "");
	OK(strstr(e.msg, "The beginning"));
	OK(strstr(e.msg, "and the real cause"));
	OK(strlen(e.msg) < 600);
}

static void test_locked(void)
{
	feed("1,,error-exit,Vagrant::Errors::MachineActionLockedError,An action 'up' was "
	     "attempted\n");
	OK(vagrant_report_locked(&report));
	feed("1,,error-exit,Vagrant::Errors::BoxNotFound,x\n");
	OK(!vagrant_report_locked(&report));
}

static void test_limits(void)
{
	char line[400];

	report = (struct vagrant_report){0};
	for (int i = 0; i < VAGRANT_MACHINES_MAX; i++) {
		snprintf(line, sizeof(line), "1,m%d,metadata,provider,x", i);
		vagrant_report_line(&report, line);
	}
	OK(report.n_machines == VAGRANT_MACHINES_MAX && !report.too_many);
	snprintf(line, sizeof(line), "1,more,metadata,provider,x");
	vagrant_report_line(&report, line);
	OK(report.n_machines == VAGRANT_MACHINES_MAX && report.too_many);
	snprintf(line, sizeof(line), "1,m0,moat-ssh,%0300d,22,u", 0);
	vagrant_report_line(&report, line);
	OK(report.machines[0].ssh.port == 0);
	snprintf(line, sizeof(line), "1,m0,moat-ssh,host,99999,u");
	vagrant_report_line(&report, line);
	OK(report.machines[0].ssh.port == 0);
}

static void test_ssh_config(void)
{
	struct vagrant_ssh s;
	struct err e;

	OK(vagrant_ssh_config_parse("Host default\n  HostName 192.168.121.20\n  User vagrant\n"
				    "  Port 2222\n  StrictHostKeyChecking no\n"
				    "  IdentityFile \"/with space/a \\\"key\\\"\"\n"
				    "  IdentityFile /b\n",
		   &s, &e) == 0);
	STR_IS(s.host, "192.168.121.20");
	STR_IS(s.user, "vagrant");
	OK(s.port == 2222 && s.n_keys == 2);
	STR_IS(s.keys[0], "/with space/a \"key\"");
	STR_IS(s.keys[1], "/b");
	OK(vagrant_ssh_config_parse("HostName a\nUser b\n", &s, &e) == 0 && s.port == 22);
	OK(vagrant_ssh_config_parse("HostName a\n", &s, &e) < 0);
	OK(vagrant_ssh_config_parse("", &s, &e) < 0);
	OK(vagrant_ssh_config_parse("HostName a\nUser b\nProxyCommand nc x\n", &s, &e) < 0);
	OK(e.kind == ERR_UNSUPPORTED);
}

int main(void)
{
	test_lines();
	test_recorded_up();
	test_progress();
	test_order();
	test_errors();
	test_provisioner_of_one_machine();
	test_causes_that_vagrant_hides();
	test_long_error();
	test_locked();
	test_limits();
	test_ssh_config();
	return tap_done();
}
