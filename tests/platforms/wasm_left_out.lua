-- tests/platforms/wasm_left_out.lua: tests that cannot run in WebAssembly, with the reasons, by files
-- and names. Whole files are left out by scripts/platforms/wasm_tests.sh.

return {
}
