// tensor/error.cpp: how values are written in error messages.
#include "tensor/error.h"

#include <cstdio>

namespace moonlet {

void append(std::string& out, std::string_view text) { out.append(text); }

void append(std::string& out, int64_t value) { out += std::to_string(value); }

void append(std::string& out, double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.14g", value);
  out += buffer;
}

}  // namespace moonlet
