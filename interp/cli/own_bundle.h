// interp/cli/own_bundle.h: the bundle that this executable was written with (`moonlet bundle`).
#pragma once

#include <memory>
#include <string>

#include "tensor/io/bundle.h"

namespace moonlet {

bool has_own_bundle();
// Throws Error where it is damaged: the executable in it was looked at, its files are when they are
// read. `title` is what messages call it.
std::shared_ptr<const io::Bundle> open_own_bundle(const std::string& title);

}  // namespace moonlet
