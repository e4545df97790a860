#include "cli/image/made.h"

#include <stdio.h>

int image_print_made(struct cli *cli, const json_t *image, struct err *e)
{
	if (cli->json)
		return print_json(&cli->screen, image, e);
	puts(get_str(image, "name"));
	return EXIT_OK;
}
