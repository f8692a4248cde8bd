-- tests/platforms/macos_left_out.lua: patterns of what errors say of what is not in the build with
-- LLVM's C++ library (scripts/platforms/macos.sh); a test that fails with one is left out.

return {
  absent = {
    ["this build has no LAPACK"] = "the build has no LAPACK",
  },
}
