/* Names, digests, use and removal. */
#include "test-store.h"

static struct image *build(struct store *st, const char *name, bool rebuild)
{
	struct op op = plain_op(60);
	struct image *img = NULL;
	struct err e;

	if (store_build(st, &op, name, rebuild, &img, &e) < 0)
		printf("# build %s: %s\n", name, e.msg);
	return img;
}

static void test_empty(struct store *st)
{
	auto_image_list struct image_list list = {0};
	struct image *img = NULL;
	struct op op = plain_op(10);
	uint64_t freed;
	struct err e;

	OK(store_list(st, NULL, &list, &e) == 0 && list.n == 0);
	OK(store_find(st, "nothing", &img, &e) < 0 && e.kind == ERR_NOT_FOUND);
	STR_IS(e.msg, "no image \"nothing\"; see what there is: moat image ls");
	OK(store_find(st, "one", &img, &e) < 0 && e.kind == ERR_NOT_FOUND);
	STR_IS(e.msg, "no image \"one\"; build it with: moat image build one");
	OK(store_find(st, "../../etc", &img, &e) < 0 && e.kind == ERR_NOT_FOUND);
	OK(store_find(st, "", &img, &e) < 0 && e.kind == ERR_NOT_FOUND);
	OK(store_remove(st, "nothing", &freed, &e) < 0 && e.kind == ERR_NOT_FOUND);
	OK(store_gc(st, &op, NULL, NULL, &e) == 0);
}

static void test_find(struct store *st)
{
	auto_image struct image *img = build(st, "one", false), *again = NULL, *by_digest = NULL;
	auto_image_list struct image_list list = {0};
	char prefix[32];
	struct err e;

	if (!OK(img))
		return;
	STR_IS(img->name, "one");
	STR_IS(img->user, "user");
	OK(path_exists(img->kernel) && img->kernel[0] == '/' && !img->disk);
	OK(img->size > 0 && img->created > 1500000000);
	OK(store_find(st, "one", &again, &e) == 0);
	STR_IS(again->digest, img->digest);
	snprintf(prefix, sizeof(prefix), "sha256:%.6s", img->digest);
	OK(store_find(st, prefix, &by_digest, &e) == 0);
	STR_IS(by_digest->name, "one");
	snprintf(prefix, sizeof(prefix), "%.3s", img->digest);
	image_free(again);
	again = NULL;
	OK(store_find(st, prefix, &again, &e) < 0 && e.kind == ERR_NOT_FOUND);
	OK(store_list(st, NULL, &list, &e) == 0 && list.n == 1);
	OK(store_is_clean());
}

static void test_ambiguous(struct store *st)
{
	static const char zeros[] = "00000000000000000000000000000000000000000000000000000000000";
	struct image *img = NULL;
	char a[400], b[400];
	struct err e;

	snprintf(a, sizeof(a), "%s/data/images/sha256-abcd0%s", home, zeros);
	snprintf(b, sizeof(b), "%s/data/images/sha256-abcd1%s", home, zeros);
	OK(mkdir(a, 0700) == 0 && mkdir(b, 0700) == 0);
	OK(store_find(st, "abcd", &img, &e) < 0 && e.kind == ERR_INVALID);
	OK(strstr(e.msg, "2 images"));
	OK(rmdir(a) == 0 && rmdir(b) == 0);
}

static void test_remove(struct store *st)
{
	auto_image struct image *img = NULL;
	struct image_use *use = NULL, *second = NULL;
	struct store *other = open_store(); /* as another process would have it */
	auto_image struct image *same = NULL;
	uint64_t freed = 0;
	struct err e;

	OK(store_use(st, "one", &img, &use, &e) == 0);
	OK(store_remove(st, "one", &freed, &e) < 0 && e.kind == ERR_BUSY);
	STR_IS(e.msg, "image one is in use: remove the sandboxes that run on it first");
	OK(store_remove(other, "one", &freed, &e) < 0 && e.kind == ERR_BUSY);
	OK(store_use(other, "one", &same, &second, &e) == 0);
	store_unuse(use);
	OK(store_remove(st, "one", &freed, &e) < 0 && e.kind == ERR_BUSY);
	OK(path_exists(img->kernel));
	store_unuse(second);
	OK(store_remove(st, "one", &freed, &e) == 0 && freed == img->size);
	OK(!path_exists(img->dir));
	OK(count_entries(at("data/images/names"), "") == 0 && store_is_clean());
	store_close(other);
}

/* An image that is replaced while in use stays until it is unused. */
static void test_replace(struct store *st)
{
	auto_image struct image *first = NULL, *second = NULL, *third = NULL, *found = NULL;
	struct image_use *use = NULL;
	struct err e;

	second = build(st, "changing", false);
	OK(store_use(st, "changing", &first, &use, &e) == 0);
	third = build(st, "changing", true);
	if (!OK(second && third))
		return;
	STR_IS(first->digest, second->digest);
	OK(strcmp(first->digest, third->digest) != 0);
	OK(path_exists(first->kernel));
	OK(store_find(st, "changing", &found, &e) == 0);
	STR_IS(found->digest, third->digest);
	store_unuse(use);
	OK(!path_exists(first->dir));
	OK(path_exists(third->kernel));
	image_free(second);
	second = build(st, "changing", true); /* not in use: gone at once */
	OK(second && !path_exists(third->dir));
	OK(count_entries(at("data/images"), "sha256-") == 1);
}

static void hear(void *arg, const char *text)
{
	(void)text;
	++*(int *)arg;
}

static void test_gc(struct store *st)
{
	auto_image struct image *img = build(st, "one", true);
	struct op op = plain_op(10);
	struct image *gone = NULL;
	int heard = 0;
	struct err e;

	OK(mkdir(at("data/images/tmp-dead01"), 0700) == 0);
	OK(mkdir(at("data/images/dead-x"), 0700) == 0);
	write_file(at("data/images/dead-x/file"), "x");
	OK(store_gc(st, &op, hear, &heard, &e) == 0 && heard == 2);
	OK(store_is_clean());
	OK(img && unlink(at("data/images/names/one")) == 0);
	heard = 0;
	OK(store_gc(st, &op, hear, &heard, &e) == 0 && heard == 1);
	OK(img && !path_exists(img->dir));
	/* A user has deleted the image's files: it counts as not built. */
	image_free(img);
	img = build(st, "one", false);
	OK(img && dir_remove(img->dir, &e) == 0);
	OK(store_find(st, "one", &gone, &e) < 0 && e.kind == ERR_NOT_FOUND);
	gone = build(st, "one", false);
	OK(gone && path_exists(gone->kernel));
	image_free(gone);
}

/* One content under two names. */
static void test_two_names(struct store *st)
{
	auto_image struct image *a = build(st, "one", false), *b = build(st, "alias", false);
	uint64_t freed = 1;
	struct err e;

	if (!OK(a && b))
		return;
	STR_IS(a->digest, b->digest);
	OK(store_remove(st, "one", &freed, &e) == 0 && freed == 0);
	OK(path_exists(a->dir));
	OK(store_remove(st, b->digest, &freed, &e) == 0 && freed == b->size);
	OK(!path_exists(a->dir));
	OK(store_is_clean());
}

/* The user's own recipes replace moat's, and can include moat's files. */
static void test_own_recipe(struct store *st)
{
	auto_image struct image *moats = build(st, "alias", false), *own = NULL;
	struct err e;

	dir_make(at("data/recipes"), 0700, &e);
	write_file(at("data/recipes/alias.sh"),
		"#!/bin/sh\nset -e\n. $MOAT_RECIPE_DIR/one.sh\necho more >>$1/vmlinux\n");
	own = build(st, "alias", true);
	OK(moats && own && strcmp(moats->digest, own->digest) != 0);
}

int main(int argc, char **argv)
{
	struct store *st;

	home_begin(argc, argv);
	write_recipe("one", MAKE_IMAGE("one"));
	write_recipe("alias", MAKE_IMAGE("one"));
	write_recipe("changing", "echo x >>$MOAT_CACHE_DIR/count\n" MAKE_IMAGE(
					 "changing") "cat $MOAT_CACHE_DIR/count >>$1/vmlinux\n");
	st = open_store();
	test_empty(st);
	test_find(st);
	test_ambiguous(st);
	test_remove(st);
	test_replace(st);
	test_gc(st);
	test_two_names(st);
	test_own_recipe(st);
	store_close(st);
	home_end();
	return tap_done();
}
