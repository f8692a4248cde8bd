-- tests/platforms/windows_left_out.lua: tests that cannot run on Windows, with the reasons, by files
-- and names. Whole files are left out by scripts/platforms/windows_tests.sh.

local NO_LOCALE = "Wine has no locale of the name that the test asks for"
local MAPPED = "a file that is mapped can be neither replaced nor removed"
local OF_POSIX = "the test makes links, pipes or limits of POSIX"
local NO_SIGNALS = "the test sends a signal, of which Windows has none"

return {
  absent = {
    ["this build has no LAPACK"] = "the build has no LAPACK",
  },
  ["autograd/backward"] = {
    ["a request to stop never finds half a sum"] = NO_SIGNALS,
    ["a chain of a million nodes goes forward, backward and away"] =
      "Wine's heap looks through lists of free blocks one by one: minutes after the other tests, 20 s alone",
  },
  ["autograd/interception"] = {
    ["all forms were seen"] = "the samples of some need LAPACK, which the build has not",
  },
  ["data/data"] = { ["CSV does not depend on the locale"] = NO_LOCALE },
  ["data/table"] = { ["numbers do not depend on the locale"] = NO_LOCALE },
  ["distributed/checkpoint"] = {
    ["an index or a file that is not what it should be is an error, and leads nowhere"] = MAPPED,
  },
  ["files/json"] = { ["numbers do not depend on the locale"] = NO_LOCALE },
  ["files/readers"] = {
    ["folders of pictures"] = OF_POSIX,
    ["files of token ids"] = MAPPED,
  },
  ["files/serialize"] = {
    ["arguments go by position or by name; a saved table may have their names"] = MAPPED,
    ["a file is mapped when asked to, and saving to its path is safe"] = MAPPED,
    ["tensors go to several files, and come back"] = MAPPED,
    ["what is no regular file is refused at once"] = OF_POSIX,
    ["links are followed, and long names have room"] = OF_POSIX,
    ["an error while saving leaves the old file"] = OF_POSIX,
    ["killing the process while it saves leaves the old file whole"] = OF_POSIX,
  },
  ["nn/gpt2"] = {
    ["the likeliest tokens, written one by one, are PyTorch's"] =
      "a pipe of text ends at Ctrl-Z there, which the tokens have",
  },
  ["interp/plot"] = {
    ["SVG does not depend on the locale"] = NO_LOCALE,
    ["save writes a whole file or none"] = "names of temporary files end in .tmp, which no figure does",
  },
  ["interp/repl"] = {
    ["Tab: names inside the strings of commands"] = "the test looks for a folder of POSIX in the root",
  },
  ["ops/elementwise"] = {
    ["powers of float64 are the C library's but for the last bit"] =
      "powers of the C library there are wrong in the last bits",
  },
}
