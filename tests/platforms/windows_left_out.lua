-- tests/platforms/windows_left_out.lua: tests that cannot run on Windows, with the reasons, by files
-- and names. Whole files are left out by scripts/platforms/windows_tests.sh.

return {
  absent = {
    ["this build has no LAPACK"] = "the build has no LAPACK",
  },
}
