// interp/c/errors.cpp: the thread's last error, and what can be said about the library.
#include <new>

#include "interp/c/callbacks.h"
#include "interp/version.h"

namespace moonlet::c {

constinit thread_local char Inside::mark = 0;

void Inside::refuse_busy() {
  throw StatusError(MOONLET_BUSY, "the interpreter is in use by another thread");
}

LastError::~LastError() {
  if (origin != nullptr) origin->drop();
}

void note_origin(Shared& shared) noexcept {
  shared.holders.fetch_add(1, std::memory_order_relaxed);
  Shared* before = std::exchange(last_error().origin, &shared);
  if (before != nullptr) before->drop();
}

LastError& last_error() noexcept {
  static thread_local LastError error;
  return error;
}

namespace {

// As the number of the C interface.
int32_t number_of(Limit limit) {
  switch (limit) {
    case Limit::LuaBytes: return MOONLET_LIMIT_LUA_BYTES;
    case Limit::TensorBytes: return MOONLET_LIMIT_TENSOR_BYTES;
    case Limit::Instructions: return MOONLET_LIMIT_INSTRUCTIONS;
    case Limit::WallTime: return MOONLET_LIMIT_WALL_TIME;
  }
  return MOONLET_LIMIT_NONE;
}

// Sorts the exception that is being handled.
void describe(LastError& error) {
  try {
    throw;
  } catch (const StatusError& e) {
    error.status = e.status();
    error.message = e.what();
  } catch (const ScriptError& e) {
    error.status = MOONLET_SCRIPT_ERROR;
    if (const auto* limit = dynamic_cast<const LimitExceeded*>(&e)) {
      error.status = MOONLET_LIMIT;
      error.limit = number_of(limit->limit());
    } else if (dynamic_cast<const ScriptInterrupted*>(&e) != nullptr) {
      error.status = MOONLET_INTERRUPTED;
    }
    error.message = e.what();
    error.traceback = e.traceback();
    error.value = e.value();
  } catch (const OutOfMemory& e) {
    error.status = MOONLET_NO_MEMORY;
    error.message = e.what();
  } catch (const std::bad_alloc&) {
    error.status = MOONLET_NO_MEMORY;
    error.message = "not enough memory";
  } catch (const Error& e) {
    error.status = MOONLET_ERROR;
    error.message = e.what();
  } catch (const std::exception& e) {
    error.status = MOONLET_FOREIGN;
    error.message = e.what();
  } catch (...) {
    error.status = MOONLET_FOREIGN;
    error.message = "an exception that is no std::exception";
  }
}

}  // namespace

moonlet_status note_exception() noexcept {
  LastError& error = last_error();
  error.fixed = nullptr;
  error.limit = MOONLET_LIMIT_NONE;
  error.status = MOONLET_FOREIGN;
  try {
    error.traceback.clear();
    error.value = Value();
    error.exception = std::current_exception();
    describe(error);
  } catch (...) {  // no memory for the message
    error.status = MOONLET_NO_MEMORY;
    error.fixed = "not enough memory";
  }
  return error.status;
}

void refuse_handle(const char* function, const char* argument, const void* handle,
                   HandleKind wanted) {
  refuse(function, ": '", argument, "': expected ", name(wanted), ", got ",
         describe_handle(handle));
}

void refuse_null(const char* function, const char* argument) {
  refuse(function, ": '", argument, "': expected a pointer, got null");
}

void throw_for(moonlet_status status) {
  LastError& error = last_error();
  if (error.exception != nullptr) std::rethrow_exception(error.exception);
  if (error.status != MOONLET_OK) fail(moonlet_error_message());
  fail("a host function failed with status ", status);
}

}  // namespace moonlet::c

using namespace moonlet::c;

const char* moonlet_version(void) { return MOONLET_VERSION_STRING; }
int32_t moonlet_abi_version(void) { return MOONLET_ABI_VERSION; }

moonlet_status moonlet_error_status(void) { return last_error().status; }
const char* moonlet_error_message(void) {
  const LastError& error = last_error();
  return error.fixed != nullptr ? error.fixed : error.message.c_str();
}
const char* moonlet_error_traceback(void) { return last_error().traceback.c_str(); }
int32_t moonlet_error_limit(void) { return last_error().limit; }

const char* moonlet_status_name(moonlet_status status) {
  switch (status) {
    case MOONLET_OK: return "MOONLET_OK";
    case MOONLET_INVALID: return "MOONLET_INVALID";
    case MOONLET_ERROR: return "MOONLET_ERROR";
    case MOONLET_SCRIPT_ERROR: return "MOONLET_SCRIPT_ERROR";
    case MOONLET_LIMIT: return "MOONLET_LIMIT";
    case MOONLET_INTERRUPTED: return "MOONLET_INTERRUPTED";
    case MOONLET_NO_MEMORY: return "MOONLET_NO_MEMORY";
    case MOONLET_BUSY: return "MOONLET_BUSY";
    case MOONLET_FOREIGN: return "MOONLET_FOREIGN";
    default: return "unknown status";
  }
}

void moonlet_set_error(const char* message) {
  LastError& error = last_error();
  error.status = MOONLET_ERROR;
  error.limit = MOONLET_LIMIT_NONE;
  error.exception = nullptr;
  error.fixed = nullptr;
  static_cast<void>(guarded([&] {
    error.message = message != nullptr ? message : "";
    error.traceback.clear();
    error.value = moonlet::Value();
  }));
}

size_t moonlet_live_handles(void) { return live_handles(); }
