#include "net/doc.h"

#include <string.h>

#include "net/script.h"
#include "util/auto.h"
#include "util/json.h"

typedef int script_fn(const struct net_plan *p, struct buf *ret, struct err *e);

static int add_text(json_t *doc, const char *name, struct buf *b, struct err *e)
{
	auto_free char *text = buf_take_str(b);

	if (!text || json_object_set_new(doc, name, json_string(text)) < 0)
		return err_oom(e);
	return 0;
}

static int add_script(
	json_t *doc, const char *name, script_fn *make, const struct net_plan *p, struct err *e)
{
	auto_buf struct buf b = {0};

	return make(p, &b, e) < 0 ? -1 : add_text(doc, name, &b, e);
}

static int add_dhcp(json_t *doc, const struct net_plan *p, struct err *e)
{
	json_t *all = json_array();

	if (!all || json_object_set_new(doc, "dhcp", all) < 0)
		return err_oom(e);
	for (size_t i = 0; i < p->n_vnets; i++) {
		auto_buf struct buf b = {0};
		json_t *one;

		if (!p->vnets[i].dhcp)
			continue;
		one = json_pack("{s:s}", "bridge", p->vnets[i].bridge);
		if (json_array_append_new(all, one) < 0)
			return err_oom(e);
		if (net_script_dhcp(p, i, &b, e) < 0 || add_text(one, "conf", &b, e) < 0)
			return -1;
	}
	return 0;
}

int net_doc(const struct net_plan *p, char **ret, struct err *e)
{
	auto_json json_t *doc = json_object();

	if (!doc)
		return err_oom(e);
	if (add_script(doc, "links", net_script_links, p, e) < 0 ||
		add_script(doc, "vlans", net_script_vlans, p, e) < 0 ||
		add_script(doc, "rules", net_script_rules, p, e) < 0 || add_dhcp(doc, p, e) < 0)
		return -1;
	return json_to_str(doc, ret, e);
}
