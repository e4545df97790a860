#include "store/store.h"
int store_oci_build(struct store *st, const struct op *op, const struct oci_build_req *req,
	struct image **ret, struct err *e)
{
	(void)st, (void)op, (void)req, (void)ret;
	return err_set(e, ERR_UNSUPPORTED, "Dockerfiles cannot be built yet");
}
