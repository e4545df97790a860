/* Compose files and Dockerfiles as specs. */
#include "compose/compose.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/request.h"
#include "spec/yaml.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"
#include "util/system/io.h"

/* The environment of a shell is a few hundred variables. */
#define ENV_MAX 4096

static int read_file(void *arg, const char *path, char **ret, size_t *ret_len, struct err *e)
{
	struct stat st;

	(void)arg;
	if (stat(path, &st) < 0)
		return err_sys(e, errno, "%s", path);
	if (!S_ISREG(st.st_mode)) /* reading a pipe could wait for ever */
		return err_set(e, ERR_INVALID, "%s: not a file", path);
	return file_read(path, SPEC_TEXT_MAX, ret, ret_len, e);
}

static int check_env(const json_t *env, struct err *e)
{
	const char *name;
	json_t *value;

	if (!json_is_object(env))
		return err_set(e, ERR_INVALID, "args.env: not an object");
	if (json_object_size(env) > ENV_MAX)
		return err_set(e, ERR_INVALID, "args.env: more than %d", ENV_MAX);
	json_object_foreach((json_t *)env, name, value)
		if (!json_is_string(value))
			return err_set(e, ERR_INVALID, "args.env.%.64s: not a string", name);
	return 0;
}

static int choose_closed(const struct config *c, const json_t *env, bool *ret, struct err *e)
{
	const char *asked = json_string_value(json_object_get(env, "MOAT_COMPOSE_EGRESS"));
	const char *egress = str_empty(asked) ? c->compose_egress : asked;

	if (strcmp(egress, "open") != 0 && strcmp(egress, "deny") != 0)
		return err_set(e, ERR_INVALID, "MOAT_COMPOSE_EGRESS is open or deny, not \"%.60s\"",
			egress);
	*ret = egress[0] == 'd';
	return 0;
}

static int check_paths(const struct compose_req *req, struct err *e)
{
	if (!req->config == !req->path)
		return err_set(e, ERR_INVALID, "args: needs exactly one of path and config");
	if (req->path && req->path[0] != '/')
		return err_set(e, ERR_INVALID, "args.path: not an absolute path");
	if (req->config && !req->directory)
		return err_set(e, ERR_INVALID, "args.directory is missing");
	if (req->directory && req->directory[0] != '/')
		return err_set(e, ERR_INVALID, "args.directory: not an absolute path");
	return 0;
}

int handle_compose(struct request *rq, json_t **ret, struct err *e)
{
	auto_json json_t *none = json_object();
	struct compose_req req = {.env = none, .files = {.read = read_file}};
	auto_free char *parent = NULL;
	int prebuilt = 0;

	if (json_get(rq->args, "args", e, "{s?s, s?o, s?s, s?o, s?b}", "path", &req.path, "config",
		    &req.config, "directory", &req.directory, "env", &req.env, "prebuilt",
		    &prebuilt) < 0)
		return -1;
	req.prebuilt = prebuilt;
	if (check_paths(&req, e) < 0 || check_env(req.env, e) < 0 ||
		choose_closed(&rq->daemon->config, req.env, &req.closed, e) < 0)
		return -1;
	if (!req.path)
		req.path = "compose.yaml";
	if (!req.directory) {
		size_t len = (size_t)(strrchr(req.path, '/') - req.path);

		if (str_printf(&parent, e, "%.*s", len ? (int)len : 1, req.path) < 0)
			return -1;
		req.directory = parent;
	}
	return compose_translate(&req, ret, e);
}
