// tensor/program/unseen.cpp: nothing is linked until it says so.
#include "tensor/program/unseen.h"

namespace moonlet::program {
constinit UnseenWork unseen_work;
}  // namespace moonlet::program
