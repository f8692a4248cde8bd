-- tests/platforms/macos_left_out.lua: what the build with LLVM's C++ library (scripts/platforms/macos.sh)
-- leaves out, with the reasons: by patterns of what errors say of what is not there, and by names.

return {
  absent = {
    ["this build has no LAPACK"] = "the build has no LAPACK",
  },
  ["autograd/interception"] = {
    ["all forms were seen"] = "the samples of some need LAPACK, which the build has not",
  },
}
