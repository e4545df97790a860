/* setup.h - makes a sandbox's network. For the holder's main thread. */
#pragma once

#include "net/holder/state.h"

/* Makes everything in the plan. When it returns, the rules are in force. */
int holder_setup(struct holder *h, struct err *e);
