/* What an image and a spec say of a service, and the record of it. */

#include <string.h>

#include "driver/binds.h"
#include "driver/container.h"
#include "tap.h"
#include "scratch.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"
#include "util/thread/thread.h"

#define IMAGE                                                                                      \
	"{'entrypoint':['/e'],'cmd':['c','d'],'env':['A=1','B=2','bad'],'working_dir':'/w',"       \
	"'user':'1000','stop_signal':'SIGQUIT','healthcheck':{'test':['CMD-SHELL','true x'],"      \
	"'interval':2.5}}"

static json_t *json(const char *text)
{
	char copy[1000];

	snprintf(copy, sizeof(copy), "%s", text);
	for (char *c = copy; *c; c++)
		if (*c == '\'')
			*c = '"';
	return json_loads(copy, 0, NULL);
}

static struct container *make(const char *image, const char *service)
{
	auto_json json_t *about = json(image), *spec = NULL;
	auto_spec struct sandbox_spec *s = NULL;
	struct container *c = NULL;
	char text[1000];
	struct err e;

	snprintf(text, sizeof(text), "{'vms':[{'name':'box','source':'x'%s%s}]}",
		*service ? ",'service':" : "", service);
	spec = json(text);
	if (!spec || spec_parse(spec, &s, &e) < 0 || container_make(about, &s->vms[0], &c, &e) < 0)
		return NULL;
	return c;
}

static void test_image(void)
{
	struct container *c = make(IMAGE, "");
	auto_free char *cwd = NULL;
	struct err e;

	OK(c && c->argv.n == 3 && c->env.n == 3);
	STR_IS(c->argv.v[2], "d");
	STR_IS(c->env.v[2], "HOSTNAME=box");
	STR_IS(c->user, "1000:");
	STR_IS(c->cwd, "/w");
	OK(c->stop_signal == 3);
	OK(c->healthcheck && c->healthcheck->n_test == 3 && c->healthcheck->interval > 2.4);
	STR_IS(c->healthcheck->test[2], "true x");
	OK(container_cwd(c, "sub", &cwd, &e) == 0);
	STR_IS(cwd, "/w/sub");
	container_free(c);
}

static void test_service(void)
{
	struct container *c =
		make(IMAGE, "{'name':'my_web','entrypoint':['x'],'environment':{'A':'9','C':'3'},"
			    "'user':'app:staff','working_dir':'/v'}");

	OK(c && c->argv.n == 1);
	OK(c->env.n == 4);
	STR_IS(c->env.v[0], "A=9");
	STR_IS(c->env.v[2], "B=2");
	STR_IS(c->env.v[3], "HOSTNAME=my-web");
	STR_IS(c->user, "app:staff");
	STR_IS(c->cwd, "/v");
	container_free(c);
	c = make(IMAGE, "{'command':['y']}");
	OK(c && c->argv.n == 2);
	STR_IS(c->argv.v[0], "/e");
	container_free(c);
	c = make("{}", "");
	OK(c && c->argv.n == 0 && !c->healthcheck);
	STR_IS(c->user, "root");
	STR_IS(c->cwd, "/");
	container_free(c);
}

static void test_record(void)
{
	struct container *c = make(
		"{'cmd':['c'],'healthcheck':{'test':['NONE']},'volumes':['/data','more','']}", "");
	auto_buf struct buf b = {0};
	struct err e;

	OK(c && !c->healthcheck);
	OK(container_record(c, NULL, 2, 0, &b, &e) == 0);
	OK(memmem(buf_data(&b), b.len, "arg\0c\0env\0HOSTNAME=box\0", 23));
	OK(memmem(buf_data(&b), b.len, "volume\0/data\0volume\0/more\0cwd\0", 30));
	OK(memmem(buf_data(&b), b.len, "addresses\0002\0", 12));
	container_free(c);
}

/* An image may ask for a check every nanosecond. */
static void test_hasty_check(void)
{
	struct container *c =
		make("{'healthcheck':{'test':['CMD','x'],'interval':1e-9,'timeout':1e-9}}", "");

	OK(c && c->healthcheck && c->healthcheck->interval >= 0.1 && c->healthcheck->timeout == 1);
	container_free(c);
}

/* ---- binds ---- */

static void *pack_deep(void *arg)
{
	struct bind_spec bind = {.host = arg, .path = (char[]){"/in"}};
	struct service_spec service = {.binds = &bind, .n_binds = 1};
	auto_buf struct buf b = {0};
	struct err e = {0};

	OK(binds_pack(&service, &b, &e) == 0);
	OK(memmem(buf_data(&b), b.len, "the content", 11));
	return NULL;
}

/* As deep as is allowed, in a thread as the daemon's are. */
static void test_deep_bind(void)
{
	auto_free char *path = NULL;
	pthread_t thread;
	struct err e;

	scratch_begin();
	OK(str_dup(scratch, &path, &e) == 0);
	for (int i = 0; i < 62; i++) {
		auto_free char *below = NULL;

		OK(str_printf(&below, &e, "%s/d", path) == 0 && mkdir(below, 0700) == 0);
		free(path);
		path = take_ptr(&below);
	}
	put_file(at("d/text"), "the content");
	OK(thread_start(&thread, "deep", pack_deep, scratch, &e) == 0);
	pthread_join(thread, NULL);
	scratch_end();
}

int main(void)
{
	test_hasty_check();
	test_deep_bind();
	test_image();
	test_service();
	test_record();
	return tap_done();
}
