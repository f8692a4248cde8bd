// interp/c/handles.h: the handles of the C interface: numbers that name a slot and how often it was
// used before, so that what was freed, or is of another kind, is found without touching freed
// memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "interp/c/c.h"

namespace moonlet::c {

enum class HandleKind : uint8_t {
  Free,
  Interpreter,
  Table,
  Function,
  Object,
  Tensor,
  Program,
  Context,
  Hook
};
// "tensor", as messages call it.
const char* name(HandleKind kind);

// Makes a handle that names `payload`. Throws OutOfMemory.
void* new_handle(HandleKind kind, void* payload);
// The payload of a handle of that kind, or null. Calls no function and takes no lock.
void* payload_of(const void* handle, HandleKind kind) noexcept;
// The same, and the handle is none any more: of several that free one, one gets the payload.
void* release_handle(const void* handle, HandleKind kind) noexcept;
// What a handle is that payload_of has refused, for messages: "a null handle".
const char* describe_handle(const void* handle) noexcept;
// Counted slot by slot: for diagnosis.
size_t live_handles() noexcept;

}  // namespace moonlet::c
