// moonlet/func.h: transforms of functions in C++, without an interpreter: vmap, and forward mode.
// They go with the ops and the tape of moonlet/ops.h, and may be inside one another.
#pragma once

#include "autograd/forward_mode.h"
#include "autograd/vmap.h"
