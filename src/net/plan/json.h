/* json.h - a plan as the JSON document that a holder reads. Pure. */
#pragma once

#include "net/plan/plan.h"

int net_plan_to_json(const struct net_plan *p, char **ret, struct err *e);
