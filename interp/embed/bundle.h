// moonlet/bundle.h: the scripts and files of a bundle (`moonlet bundle --library`) for an
// interpreter of a host.
#pragma once

#include <string>
#include <string_view>

#include "interp/embed/moonlet.h"

namespace moonlet {

#pragma GCC visibility push(default)

// From the next run on, scripts and run_file find the files of a bundle before all others
// (`require`, `ml.load`, `dofile`, `io.open`). Its bytes stay where they are as long as the
// interpreter. Tensors that are loaded from it are copies, but those of a part of a file that
// nobody can write to, such as a section of the executable that begins at a page: its pages are
// mapped. Its scripts are compiled chunks, which need the option `bytecode`, unless it was written
// with --source. Throws Error when it is damaged, or the interpreter has a bundle.
void open_bundle(Interpreter& lua, std::string_view bytes);
// The same of a file, whose large parts are mapped when they are read.
void open_bundle_file(Interpreter& lua, const std::string& path);

#pragma GCC visibility pop

}  // namespace moonlet
