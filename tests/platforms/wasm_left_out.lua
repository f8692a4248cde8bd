-- tests/platforms/wasm_left_out.lua: tests that cannot run in WebAssembly, with the reasons, by files
-- and names, and patterns of what errors say of what is not there. Whole files are left out by
-- scripts/platforms/wasm_tests.sh.

return {
  absent = {
    ["this build has no LAPACK"] = "the build has no LAPACK",
    ["WebAssembly runs no programs"] = "WebAssembly runs no programs",
    ["WebAssembly has no file of the program"] = "WebAssembly runs no programs",
    ["WebAssembly opens no shared libraries"] = "WebAssembly opens no shared libraries",
    ["this Moonlet was built without"] = "WebAssembly opens no shared libraries",
    ["thread constructor failed"] = "WebAssembly has one thread",
  },
  ["autograd/interception"] = {
    ["all forms were seen"] = "the samples of some need LAPACK, which the build has not",
  },
  ["data/workers"] = {
    ["an error in a worker comes in its turn, with its traceback"] = "WebAssembly has one thread",
  },
  ["files/readers"] = {
    ["folders of pictures"] = "paths of more than 8 links end there",
  },
  ["files/serialize"] = {
    ["a file is mapped when asked to, and saving to its path is safe"] = "a mapping is a copy",
    ["what is no regular file is refused at once"] = "folders of node open no pipes",
    ["links are followed, and long names have room"] = "folders of node give links from their own root",
    ["an error while saving leaves the old file"] = "there is no device that is always full",
  },
  ["interp/help"] = {
    ["the Markdown pages have every name and its text"] = "the build makes no pages",
  },
  ["ops/functions"] = {
    ["from_file: private and shared"] = "the file is written when the mapping ends",
  },
  ["tensor/storage"] = {
    ["a shared mapping writes the file, and makes it when a size is given"] =
      "the file is written when the mapping ends",
  },
  ["tensor/tensor"] = {
    ["the number of threads is set and read"] = "WebAssembly has one thread",
  },
}
