// moonlet/native_op.h: ops that a host or an extension declares in C++, with the batching rules
// that they may name and the public ops that their derivatives are made of.
#pragma once

#include "autograd/batching.h"
#include "autograd/native/native_op.h"
#include "interp/embed/ops.h"
