// tensor/core/warning.h: warnings: what an op does as asked and is likely a mistake.
#pragma once

#include <string>

namespace moonlet {

// Shows `message`, once for each `key`. Each interpreter counts for itself and shows it where its
// script can see it; without an interpreter it goes to stderr, once in the process.
void warn_once(const char* key, const std::string& message);

// Takes the position of what shows warnings; false when it cannot on this thread.
using WarningHandler = bool (*)(const char* key, const std::string& message);
void set_warning_handler(WarningHandler handler);

}  // namespace moonlet
