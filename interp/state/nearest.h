// interp/state/nearest.h: the known name that a misspelled one likely stands for, for all
// suggestions in error messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lua.hpp"

namespace moonlet {

// The one of `known` that `name` is close to, or null. Close is: the same but for letter case; at
// most (the letters of both + 2) / 5 away, where a letter too many, too few, or two swapped count 1
// and a wrong letter 2 ("dmi" is "dim", "svd" is not "std"), but in names of one or two letters no
// other is meant; or else the only one of `known` that begins with `name`, when that is half of it
// or more. The standard library calls the same as moonlet.nearest.
const char* nearest_name(std::string_view name, std::span<const char* const> known);

// "; PyTorch's 'long' is 'int64' here" for names that PyTorch has and Moonlet has under another
// one, of `ml` or of tensors; or nothing.
std::string pytorch_name_hint(std::string_view name);

// "; did you mean 'NEAREST'?", or nothing.
std::string did_you_mean(std::string_view name, std::span<const char* const> known);

// Raises "WHAT has no field or method 'WANTED'" with the name that was likely meant: one of
// `fields` or a key of the table at index `methods`.
[[noreturn]] void unknown_member(lua_State* L, const char* what, std::string_view wanted,
                                 std::span<const char* const> fields, int methods);

}  // namespace moonlet

// Module moonlet.nearest: a function (name, list of names) -> name or nil.
int luaopen_moonlet_nearest(lua_State* L);
