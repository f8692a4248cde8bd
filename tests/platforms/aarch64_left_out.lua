-- tests/platforms/aarch64_left_out.lua: tests that cannot run where qemu runs programs for aarch64 on
-- another processor, with the reasons, by files and names, and patterns of what errors say there.

return {
  absent = {
    ["ext.load_inline: cannot open"] = "the compiler that is found is that of the machine that builds",
  },
  ["interp/repl"] = {
    ["Tab: names inside the strings of commands"] = "qemu shows the folder of libraries as the root",
  },
}
