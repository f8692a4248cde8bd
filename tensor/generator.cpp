// tensor/generator.cpp: the generator of each thread.
#include "tensor/generator.h"

namespace moonlet {

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

}  // namespace moonlet
