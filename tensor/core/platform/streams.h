// tensor/core/platform/streams.h: streams of the C library whose text goes to a function.
#pragma once

#include <cstddef>
#include <cstdio>

namespace moonlet::platform {

// Whether the C library has such streams.
extern const bool kHasFunctionStreams;

// A stream without a buffer that hands what is written to `write`, which returns whether it took
// it all. Null where there are none, or no memory for it.
std::FILE* open_stream(bool (*write)(void* target, const char* text, size_t size), void* target);

}  // namespace moonlet::platform
