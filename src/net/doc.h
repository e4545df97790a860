/* doc.h - a plan as the document that a holder works from. Pure. */
#pragma once

#include "net/plan.h"

int net_doc(const struct net_plan *p, char **ret, struct err *e);
