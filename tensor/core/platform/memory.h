// tensor/core/platform/memory.h: memory as the system gives it, in pages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moonlet::platform {

// The bytes of address space that the process may use, INT64_MAX where they are not limited.
int64_t address_space() noexcept;
// The machine's memory with what it can swap out, INT64_MAX where that is unknown.
int64_t machine_memory() noexcept;

// To multiples of it parts of files are mapped.
uint64_t page_bytes() noexcept;

// Pages of zeros, from a multiple of `alignment` on; null when there are none. The system may be
// asked to use large ones.
void* allocate_pages(size_t bytes, size_t alignment) noexcept;
void free_pages(void* data, size_t bytes) noexcept;
// Whether so many bytes could be had now.
bool can_allocate_pages(size_t bytes) noexcept;

// `bytes` is a multiple of `alignment`; null when there is no memory.
void* allocate_aligned(size_t alignment, size_t bytes) noexcept;
void free_aligned(void* data) noexcept;

// What the C++ library opens when an exception is first thrown: while there is memory for it.
void open_unwinder() noexcept;

}  // namespace moonlet::platform
