// tensor/io/innermost_file_system.h: the file system of this thread, for who changes it often.
#pragma once

#include "tensor/io/file_system.h"

namespace moonlet::io {

// Where the innermost one of this thread is kept; null: the system's files.
FileSystem*& innermost() noexcept;

}  // namespace moonlet::io
