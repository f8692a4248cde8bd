// tensor/shapes.h: the shape functions of all structured ops: each checks an op's arguments and
// allocates its results.
#pragma once

#include "tensor/shapes/create.h"
#include "tensor/shapes/index.h"
#include "tensor/shapes/linalg.h"
#include "tensor/shapes/nn.h"
#include "tensor/shapes/random.h"
#include "tensor/shapes/reduce.h"
#include "tensor/shapes/shape.h"
