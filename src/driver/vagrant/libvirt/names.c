#include "driver/vagrant/libvirt/names.h"

#include <string.h>

#define HEX    "0123456789abcdef"
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
