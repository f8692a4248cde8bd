// interp/embed/extension/own_session.h: the sessions of extensions, in states that no embedding
// host has opened: each ends with its state.
#pragma once

#include <atomic>

namespace moonlet::detail {

struct Session;

// Ends the session if it is such a one. Null until there is one, so that what has no extensions
// needs no embedding API.
inline constinit std::atomic<void (*)(Session* session) noexcept> end_own_session{nullptr};

}  // namespace moonlet::detail
