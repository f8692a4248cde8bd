// tensor/core/platform/text_windows.h: texts of Windows, which are UTF-16, and paths. Only for the
// files of the platform layer.
#pragma once

#include <string>
#include <string_view>

namespace moonlet::platform {

// Bytes that are no UTF-8 become U+FFFD, so that no file is found by them.
std::wstring wide(std::string_view utf8);
std::string narrow(std::wstring_view utf16);

// What the system says of an error's code, without the end of the line.
std::string error_text(unsigned long code);

// The errno for a code.
int error_number(unsigned long code) noexcept;

}  // namespace moonlet::platform
