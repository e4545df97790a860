/* page.h - the files of the page, which tools/embed-page.py has packed into the program. Pure. */
#pragma once

#include "util/buf.h"

struct page_file {
	const char *path; /* as a browser asks for it: "/app.js" */
	const char *type;
	struct bytes packed; /* gzip */
};

extern const struct page_file page_files[];
extern const unsigned page_file_count;
/* NULL: there is no such file. */
const struct page_file *page_find(const char *path);
