// tensor/core/platform/streams_windows.cpp: the C library's streams are of files alone.
#include "tensor/core/platform/streams.h"

namespace moonlet::platform {

const bool kHasFunctionStreams = false;

std::FILE* open_stream(bool (*)(void*, const char*, size_t), void*) { return nullptr; }

}  // namespace moonlet::platform
