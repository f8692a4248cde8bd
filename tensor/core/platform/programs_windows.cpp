// tensor/core/platform/programs_windows.cpp: Windows runs no compilers for scripts yet, and says
// so.
#include "tensor/core/error.h"
#include "tensor/core/platform/programs.h"

namespace moonlet::platform {

const char* const kNoPrograms =
    "extensions are compiled and loaded on POSIX systems alone, not on Windows";

ProgramResult run_program(const Program&) { fail(kNoPrograms); }

FileLock::FileLock(const std::string&, const std::function<void()>&) { fail(kNoPrograms); }

void FileLock::release() noexcept { file_ = -1; }

bool is_program(const std::string&) { return false; }

std::vector<std::string> environment() { return {}; }

std::string new_folder(std::string) { fail(kNoPrograms); }

const char* why_not_own(const std::string&) { return kNoPrograms; }

std::optional<FileStamp> file_stamp(const std::string&) { return std::nullopt; }

}  // namespace moonlet::platform
