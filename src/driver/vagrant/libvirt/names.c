#include "driver/vagrant/libvirt/names.h"

#include <string.h>

#define DIGITS "0123456789"
#define HEX    DIGITS "abcdef"
#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define BLANKS " \t\r"

bool libvirt_is_uuid(const char *text)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

	for (unsigned i = 0; i < LIBVIRT_UUID_LEN; i++)
		if (!text[i] || (form[i] == '-' ? text[i] != '-' : !strchr(HEX, text[i])))
			return false;
	return !text[LIBVIRT_UUID_LEN];
}

bool libvirt_has_line(const char *text, const char *word)
{
	size_t want = strlen(word), len;

	for (; *text; text += len + (text[len] == '\n')) {
		const char *line;
		size_t n;

		len = strcspn(text, "\n");
		line = text + strspn(text, BLANKS);
		n = line < text + len ? len - (size_t)(line - text) : 0;
		while (n && strchr(BLANKS, line[n - 1]))
			n--;
		if (n && n == want && memcmp(line, word, n) == 0)
			return true;
	}
	return false;
}

/* The end of the name of a disk from the box: ".img", "_1.img". */
static bool is_box_disk(const char *end)
{
	size_t n = *end == '_' ? strspn(end + 1, DIGITS) : 0;

	return strcmp(n ? end + 1 + n : end, ".img") == 0;
}

/* The end of the name of a disk that the Vagrantfile adds: "-vdb.qcow2". */
static bool is_added_disk(const char *end, const char *target)
{
	size_t n = *end == '-' ? strspn(end + 1, LOWER) : 0;
	const char *type = end + 1 + n + 1;

	if (!n || end[1 + n] != '.' || !*type || type[strspn(type, LOWER UPPER DIGITS)])
		return false;
	return !target || (strlen(target) == n && memcmp(target, end + 1, n) == 0);
}

bool libvirt_is_own_disk(const char *file, const char *domain, const char *target)
{
	size_t len = strlen(domain);

	if (!len || strncmp(file, domain, len) != 0)
		return false;
	return is_box_disk(file + len) || is_added_disk(file + len, target);
}
