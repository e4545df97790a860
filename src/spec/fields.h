/*
 * fields.h - the table that says what a spec consists of. Constant data.
 *
 * How it works: a shape describes one C struct and the JSON object it is read from, a field one
 * member of both. Reading (read.c), writing and freeing (write.c) and the JSON Schema
 * (schema.c) all walk this one table, so they cannot disagree. What the table cannot say,
 * because it concerns several members at once, is in finish.c, check-vms.c and check-nets.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define SPEC_NATIVE_DEPTH_MAX 32
#define SPEC_USER_NAME_MAX    64

/* The texts that a member may have. Each stands for a number: its index. A NULL in the list is a
 * number without a text, which is written as null. */
struct choices {
	const char *const *list;
	size_t n;
};

/* What a text may consist of: never control characters. */
struct text_class {
	const char *is;      /* "a host name (letters, digits, ...)", for messages */
	const char *pattern; /* for the schema and for regcomp(3) alike; NULL: none */
	bool free;           /* the pattern does not keep control characters out */
	bool many_lines;     /* newlines and tabs may stand in it */
};

enum field_kind {
	FIELD_BOOL,     /* bool */
	FIELD_WHOLE,    /* unsigned, min..max */
	FIELD_NUMBER,   /* double, min..max */
	FIELD_TEXT,     /* char *; min..max characters of class text */
	FIELD_CHOICE,   /* an enum; choices */
	FIELD_USER,     /* char *; a name of class text, or a uid (min..max) */
	FIELD_IPV4,     /* uint32_t */
	FIELD_IPV4_NET, /* struct ipv4_net */
	FIELD_MAC,      /* struct mac_addr */
	FIELD_NATIVE,   /* json_t *, an object */
	FIELD_TEXT_MAP, /* json_t *, an object of texts: names by key, values by item; max members
			 */
	FIELD_PART,     /* a struct in place; shape */
	FIELD_OBJECT,   /* pointer to a struct, NULL when absent; shape */
	FIELD_LIST,     /* pointer to items, and their count at count_at; min..max items */
};

struct field {
	const char *name;
	enum field_kind kind;
	bool required;
	const char *preset; /* JSON read in place of an absent or null member; NULL: leave zero */
	size_t at, count_at;
	size_t given_at; /* FIELD_LIST: a bool, whether it was given at all; 0: none */
	double min, max;
	const struct text_class *text;
	const struct choices *choices; /* FIELD_TEXT: if set, one of these */
	const struct shape *shape;
	const struct field *item; /* what one item of a list or map is; its name is NULL */
	const struct field *key;  /* FIELD_TEXT_MAP: what names there may be */
	const char *help;
};

struct shape {
	const char *title; /* its name in the schema */
	const char *help;
	size_t size;
	const struct field *fields;
	size_t n_fields;
	bool one_member; /* exactly one member must be given */
	/* Short forms. A text may stand for an object that has this member alone: */
	const char *short_for;
	/* Or one of these texts may stand for it: an enum at the start of the struct holds which.
	 */
	const struct choices *choices;
	int object_choice; /* the enum's value when an object was given */
	bool null_stands;  /* null does not mean absent: it is null_choice */
	int null_choice;
};

extern const struct shape spec_shape;

extern const struct choices spec_driver_choices, spec_disk_choices, spec_os_choices;

const struct field *shape_find(const struct shape *s, const char *name);
/* The size of what a field points to or holds: how far apart the items of a list are. */
size_t field_size(const struct field *f);
