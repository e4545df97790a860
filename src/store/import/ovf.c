/*
 * How it works: an OVF file is XML, of which two elements matter, in no certain order:
 *   <File ovf:id="file1" ovf:href="disk1.vmdk" .../>     <Disk ovf:fileRef="file1" .../>
 * A scan over the tags finds them; prefixes of namespaces are passed over.
 */
#include "store/import/ovf.h"

#include <stdbool.h>
#include <string.h>

struct text {
	const char *p;
	size_t len;
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool text_is(struct text t, const char *s)
{
	return t.len == strlen(s) && memcmp(t.p, s, t.len) == 0;
}

static struct text without_prefix(struct text t)
{
	const char *colon = memchr(t.p, ':', t.len);

	if (!colon)
		return t;
	return (struct text){colon + 1, t.len - (size_t)(colon + 1 - t.p)};
}

/* Takes the text up to one of the characters in stop, or to the end. */
static struct text take_until(struct text *in, const char *stop)
{
	struct text t = {in->p, 0};

	while (in->len && !is_space(*in->p) && !strchr(stop, *in->p)) {
		in->p++;
		in->len--;
		t.len++;
	}
	return t;
}

static void skip_space(struct text *in)
{
	while (in->len && is_space(*in->p)) {
		in->p++;
		in->len--;
	}
}

/* Finds the next tag; *ret is what is between < and >. Comments and the like count as tags without
 * a name. */
static bool next_tag(struct text *in, struct text *ret)
{
	const char *open = memchr(in->p, '<', in->len), *close;
	size_t left;

	if (!open)
		return false;
	left = in->len - (size_t)(open - in->p);
	if (left >= 4 && memcmp(open, "<!--", 4) == 0) {
		close = memmem(open + 4, left - 4, "-->", 3);
		close = close ? close + 2 : NULL;
	} else {
		close = memchr(open, '>', left);
	}
	if (!close)
		return false;
	*ret = (struct text){open + 1, (size_t)(close - open - 1)};
	in->len -= (size_t)(close + 1 - in->p);
	in->p = close + 1;
	return true;
}

/* Finds the value of an attribute of a tag. */
static bool attribute(struct text tag, const char *name, struct text *ret)
{
	take_until(&tag, "/");
	for (;;) {
		struct text key;
		const char *end;
		char quote;

		skip_space(&tag);
		key = take_until(&tag, "=/");
		skip_space(&tag);
		if (!tag.len || *tag.p != '=')
			return false;
		tag.p++;
		tag.len--;
		skip_space(&tag);
		if (!tag.len || (*tag.p != '"' && *tag.p != '\''))
			return false;
		quote = *tag.p++;
		tag.len--;
		end = memchr(tag.p, quote, tag.len);
		if (!end)
			return false;
		*ret = (struct text){tag.p, (size_t)(end - tag.p)};
		tag.len -= ret->len + 1;
		tag.p = end + 1;
		if (text_is(without_prefix(key), name))
			return true;
	}
}

/* Finds the first element of that name and, if id is given, with that id, and the value of its
 * attribute `wanted`. */
static bool find_element(struct text xml, const char *element, const struct text *id,
	const char *wanted, struct text *ret)
{
	struct text tag, inside, its_id;

	while (next_tag(&xml, &tag)) {
		inside = tag;
		if (!text_is(without_prefix(take_until(&inside, "/")), element))
			continue;
		if (id && (!attribute(tag, "id", &its_id) || its_id.len != id->len ||
				  memcmp(its_id.p, id->p, id->len) != 0))
			continue;
		if (attribute(tag, wanted, ret))
			return true;
	}
	return false;
}

int ovf_first_disk(struct bytes ovf, char ret_name[OVF_NAME_MAX], struct err *e)
{
	struct text xml = {(const char *)ovf.p, ovf.len}, id, name;

	if (!find_element(xml, "Disk", NULL, "fileRef", &id))
		return err_set(e, ERR_INVALID, "its .ovf describes no disk");
	if (!find_element(xml, "File", &id, "href", &name) || name.len == 0)
		return err_set(e, ERR_INVALID, "its .ovf does not say in which file the disk is");
	if (name.len >= OVF_NAME_MAX || memchr(name.p, 0, name.len) ||
		memchr(name.p, '/', name.len))
		return err_set(e, ERR_INVALID, "its .ovf names a disk that is not in the OVA");
	memcpy(ret_name, name.p, name.len);
	ret_name[name.len] = 0;
	return 0;
}
