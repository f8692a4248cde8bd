// tests/cpp/catch2.h: Catch2, of the second or the third major version, under the third's names.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
#else
#include <catch2/catch.hpp>
using Catch::Matchers::Contains;
#define ContainsSubstring Contains
#endif
