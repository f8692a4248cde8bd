// tensor/core/platform/programs_wasm.cpp: WebAssembly runs no programs, and says so.
#include "tensor/core/error.h"
#include "tensor/core/platform/programs.h"

namespace moonlet::platform {

const char* const kNoPrograms = "WebAssembly runs no programs and opens no shared libraries";

ProgramResult run_program(const Program&) { fail(kNoPrograms); }

FileLock::FileLock(const std::string&, const std::function<void()>&) { fail(kNoPrograms); }

void FileLock::release() noexcept { file_ = -1; }

bool is_program(const std::string&) { return false; }

std::vector<std::string> environment() { return {}; }

std::string new_folder(std::string) { fail(kNoPrograms); }

const char* why_not_own(const std::string&) { return kNoPrograms; }

std::optional<FileStamp> file_stamp(const std::string&) { return std::nullopt; }

}  // namespace moonlet::platform
