-- tests/platforms/wasm_left_out.lua: tests that cannot run in WebAssembly, with the reasons, by files
-- and names, and patterns of what errors say of what is not there. Whole files are left out by
-- scripts/platforms/wasm_tests.sh.

return {
  absent = {
    ["this build has no LAPACK"] = "the build has no LAPACK",
    ["WebAssembly runs no programs"] = "WebAssembly runs no programs",
    -- Of os.execute.
    ["^Function not implemented$"] = "WebAssembly runs no programs",
    ["WebAssembly opens no shared libraries"] = "WebAssembly opens no shared libraries",
    ["thread constructor failed"] = "WebAssembly has one thread",
  },
}
