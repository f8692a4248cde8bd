-- tests/hostile/files.lua: damaged, forged and impossible files for everything that reads or writes one.

return {
  -- safetensors: the header.
  { "cut off at each byte", [[
      ml.save(path "whole.st", { w = ml.arange(1, 6):float():view(2, 3), b = ml.ones(2) }, { metadata = { k = "v" } })
      local whole = read "whole.st"
      local refused, wrong = 0, {}
      for n = 0, #whole - 1 do
        local ok, message = pcall(ml.load, write("cut.st", whole:sub(1, n)))
        if ok then wrong[#wrong + 1] = n
        elseif not message:find "load: 'cut.st'" then wrong[#wrong + 1] = message end
      end
      return #wrong, wrong[1] ]], gives = "0, nil" },
  { "cut off at each byte, mapped", [[
      ml.save(path "whole.st", { w = ml.ones(2) })
      local whole = read "whole.st"
      local loaded = 0
      for n = 0, #whole - 1 do
        if pcall(ml.load, write("cut.st", whole:sub(1, n)), { mmap = true }) then loaded = loaded + 1 end
      end
      return loaded ]], gives = "0" },
  { "each byte of the header set to each of some values", [[
      ml.save(path "whole.st", { w = ml.ones(2) })
      local whole = read "whole.st"
      local length = ("<s8"):unpack(whole)
      local bad = {}
      for n = 1, 8 + #length do
        for _, byte in ipairs { 0, 34, 44, 57, 91, 123, 128, 255 } do
          local ok, value = pcall(ml.load, write("bent.st", whole:sub(1, n - 1) .. string.char(byte) .. whole:sub(n + 1)))
          if ok then
            for _, tensor in pairs(value) do
              if not pcall(function() return tensor:float():sum():item() end) then bad[#bad + 1] = n end
            end
          elseif not value:find "load: 'bent.st'" then bad[#bad + 1] = value end
        end
      end
      return #bad, bad[1] ]], gives = "0, nil" },
  { "a header longer than the file", [[ return ml.load(write("x.st", ("<I8"):pack(1000) .. "{}")) ]], fails = "load: 'x.st'" },
  { "a header of 2^63 bytes", [[ return ml.load(write("x.st", ("<I8"):pack(1 << 63) .. "{}")) ]], fails = "load: 'x.st'" },
  { "a header of 2^64 - 1 bytes", [[ return ml.load(write("x.st", ("<i8"):pack(-1) .. "{}")) ]], fails = "load: 'x.st'" },
  { "a header of 2^64 - 8 bytes, so that the sum wraps", [[
      return ml.load(write("x.st", ("<i8"):pack(-8) .. "{}")) ]], fails = "load: 'x.st'" },
  { "no header", [[ return ml.load(safetensors "") ]], fails = "load: 'x.safetensors'" },
  { "an empty file", [[ return ml.load(write("x.st", "")) ]], fails = "load: 'x.st'" },
  { "an empty header", [[ return next((ml.load(safetensors "{}"))) ]], gives = "nil" },
  { "a header that is an array", [[ return ml.load(safetensors "[]") ]], fails = "load: 'x.safetensors'" },
  { "a header that is a number", [[ return ml.load(safetensors "7") ]], fails = "load: 'x.safetensors'" },
  { "a header with something behind it", [[ return ml.load(safetensors "{}x") ]], fails = "load: 'x.safetensors'" },
  { "a header of spaces", [[ return ml.load(safetensors((" "):rep(100))) ]], fails = "load: 'x.safetensors'" },
  { "a header that nests a million deep", [[
      return ml.load(safetensors(('{"a":'):rep(1000000) .. "1" .. ("}"):rep(1000000))) ]], fails = "load: 'x.safetensors'" },
  { "arrays that nest a million deep", [[
      return ml.load(safetensors('{"a":' .. ("["):rep(1000000) .. ("]"):rep(1000000) .. "}")) ]], fails = "load: 'x.safetensors'" },
  { "a NaN in the header", [[
      return ml.load(safetensors('{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,4]}}', "1234")) ]],
    fails = "load: 'x.safetensors'" },
  { "a float as a size", [[
      return ml.load(safetensors('{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}', "1234")) ]],
    fails = "load: 'x.safetensors'" },
  { "1e400 as a size", [[
      return ml.load(safetensors('{"a":{"dtype":"F32","shape":[1e400],"data_offsets":[0,4]}}', "1234")) ]],
    fails = "load: 'x.safetensors'" },
  { "a negative size", [[
      return ml.load(safetensors('{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}', "1234")) ]],
    fails = "load: 'x.safetensors'" },
  { "two negative sizes", [[
      return ml.load(safetensors('{"a":{"dtype":"F32","shape":[-1,-1],"data_offsets":[0,4]}}', "1234")) ]],
    fails = "load: 'x.safetensors'" },
  { "sizes whose product wraps to the right number", [[
      return ml.load(safetensors('{"a":{"dtype":"F32","shape":[4294967296,4294967296,1],"data_offsets":[0,0]}}')) ]],
    fails = "load: 'x.safetensors'" },
  { "a size of 2^64", [[
      return ml.load(safetensors('{"a":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,0]}}')) ]],
    fails = "load: 'x.safetensors'" },
  { "a size of 2^63 beside a zero", [[
      return ml.load(safetensors('{"a":{"dtype":"U8","shape":[0,9223372036854775808],"data_offsets":[0,0]}}')) ]],
    fails = "load: 'x.safetensors'" },
  { "a thousand sizes", [[
      return ml.load(safetensors('{"a":{"dtype":"U8","shape":[' .. ("1,"):rep(999) .. '1],"data_offsets":[0,1]}}', "1")) ]],
    fails = "load: 'x.safetensors'" },
  { "a size that is a string", [[
      return ml.load(safetensors('{"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}}', "1")) ]],
    fails = "load: 'x.safetensors'" },
  { "offsets behind the end", [[
      return ml.load(safetensors('{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', "1234")) ]],
    fails = "load: 'x.safetensors'" },
  { "offsets in the wrong order", [[
      return ml.load(safetensors('{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}', "1234")) ]],
    fails = "load: 'x.safetensors'" },
  { "offsets that are negative", [[
      return ml.load(safetensors('{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}', "1234")) ]],
    fails = "load: 'x.safetensors'" },
  { "offsets near 2^64", [[
      return ml.load(safetensors('{"a":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,18446744073709551616]}}',
        "1234")) ]], fails = "load: 'x.safetensors'" },
  { "three offsets", [[
      return ml.load(safetensors('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}', "12345678")) ]],
    fails = "load: 'x.safetensors'" },
  { "offsets of another size than the tensor", [[
      return ml.load(safetensors('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}}', "12345678")) ]],
    fails = "load: 'x.safetensors'" },
  { "tensors that overlap", [[
      return ml.load(safetensors('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}}',
        "123456")) ]], fails = "load: 'x.safetensors'" },
  { "a hole between tensors", [[
      return ml.load(safetensors('{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}',
        "123")) ]], fails = "load: 'x.safetensors'" },
  { "bytes behind the last tensor", [[
      return ml.load(safetensors('{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', "123")) ]],
    fails = "load: 'x.safetensors'" },
  { "tensors in another order than their names", [[
      local t = ml.load(safetensors('{"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
        "\3\4"))
      return t.a:item(), t.b:item() ]], gives = "3, 4" },
  { "a name twice", [[
      return ml.load(safetensors('{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}',
        "\3\4")) ]], fails = "load: 'x.safetensors'" },
  { "a dtype twice", [[
      return ml.load(safetensors('{"a":{"dtype":"U8","dtype":"F64","shape":[1],"data_offsets":[0,1]}}', "1")) ]],
    fails = "load: 'x.safetensors'" },
  { "a dtype that nobody has", [[
      return ml.load(safetensors('{"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}}', "1234")) ]],
    fails = "load: 'x.safetensors'.*F31" },
  { "an entry without a dtype", [[
      return ml.load(safetensors('{"a":{"shape":[1],"data_offsets":[0,4]}}', "1234")) ]], fails = "load: 'x.safetensors'" },
  { "an entry that is null", [[ return ml.load(safetensors '{"a":null}') ]], fails = "load: 'x.safetensors'" },
  { "metadata that is no table of strings", [[ return ml.load(safetensors '{"__metadata__":{"a":7}}') ]],
    fails = "load: 'x.safetensors'" },
  { "bytes that are no UTF-8 in a name", [[
      return ml.load(safetensors('{"\xff\xfe":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', "1")) ]],
    fails = "load: 'x.safetensors'" },
  { "a NUL in a name", [[
      local t = ml.load(safetensors('{"a\\u0000b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', "\5"))
      return t["a\0b"]:item() ]], gives = "5" },
  { "half of a surrogate pair in a name", [[
      return ml.load(safetensors('{"\\ud800":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', "1")) ]],
    fails = "load: 'x.safetensors'" },
  { "a bool that is neither", [[
      local t = ml.load(safetensors('{"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}}', "\1\7"))
      return t.a ]],
    fails = "neither 0 nor 1" },
  { "tensors that are not aligned", [[
      local t = ml.load(safetensors('{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F64","shape":[2],"data_offsets":[1,17]}}',
        "\5" .. ("<dd"):pack(1.5, 2.5)))
      return t.a:item(), t.b:sum():item() ]], gives = "5, 4.0" },
  { "tensors that are not aligned, mapped", [[
      local t = ml.load(safetensors('{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F64","shape":[2],"data_offsets":[1,17]}}',
        "\5" .. ("<dd"):pack(1.5, 2.5)), { mmap = true })
      return t.a:item(), t.b:sum():item() ]], gives = "5, 4.0" },

  -- safetensors: the tree of values that ml.save keeps in it.
  { "a tree that is no JSON", [[
      return ml.load(safetensors '{"__metadata__":{"moonlet.tree":"{"}}') ]], fails = "load: 'x.safetensors'.*damaged" },
  { "a tree that names a missing tensor", [[
      return ml.load(safetensors '{"__metadata__":{"moonlet.tree":"{\\"x\\":\\"gone\\"}"}}') ]], fails = "tensor 'gone' is missing" },
  { "a tree that is a number", [[
      return ml.load(safetensors '{"__metadata__":{"moonlet.tree":"7"}}') ]], fails = "damaged" },
  { "a tree of a hundred thousand levels", [=[
      local tree = ('{\\"t\\":[[1,'):rep(100000) .. "7" .. ("]]}"):rep(100000)
      return ml.load(safetensors('{"__metadata__":{"moonlet.tree":"' .. tree .. '"}}')) ]=], fails = "damaged" },
  { "a tree with a key twice", [=[
      return ml.load(safetensors '{"__metadata__":{"moonlet.tree":"{\\"t\\":[[\\"a\\",{\\"v\\":1}],[\\"a\\",{\\"v\\":2}]]}"}}') ]=],
    fails = "comes twice" },
  { "a tree with a NaN as a key", [=[
      return ml.load(safetensors '{"__metadata__":{"moonlet.tree":"{\\"t\\":[[1e999,{\\"v\\":1}]]}"}}') ]=], fails = "damaged" },
  { "a tree with a null as a key", [=[
      return ml.load(safetensors '{"__metadata__":{"moonlet.tree":"{\\"t\\":[[null,{\\"v\\":1}]]}"}}') ]=], fails = "damaged" },

  -- What cannot be saved.
  { "saving a table that contains itself", [[ local t = {} t.t = t ml.save(path "x.st", t) ]], fails = "save: .*contains itself" },
  { "saving a function", [[ ml.save(path "x.st", { a = { b = print } }) ]], fails = "save: 'a/b' is a function" },
  { "saving a freed tensor", [[ local x = ml.ones(1) x:free() ml.save(path "x.st", { x = x }) ]], fails = "freed" },
  { "saving NaN, infinities and -0.0", [[
      ml.save(path "x.st", { n = { 0/0, 1/0, -1/0, -0.0 } })
      local n = ml.load("x.st").n
      return n[1] ~= n[1], n[2], n[3], 1 / n[4] ]], gives = "true, inf, -inf, -inf" },
  { "saving the ends of the integers", [[
      ml.save(path "x.st", { n = { math.mininteger, math.maxinteger, 1 << 53 } })
      local n = ml.load("x.st").n
      return n[1] == math.mininteger, n[2] == math.maxinteger, math.type(n[3]) ]], gives = "true, true, integer" },
  { "saving names with every byte below 128", [[
      local name = {}
      for i = 1, 127 do name[i] = string.char(i) end
      name = table.concat(name)
      ml.save(path "x.st", { [name] = ml.ones(1) })
      return (next((ml.load "x.st"))) == name ]], gives = "true" },
  { "saving a name that is no UTF-8", [[ ml.save(path "x.st", { ["\xff"] = ml.ones(1) }) ]], fails = "save: .*UTF%-8" },
  { "saving the reserved name", [[ ml.save(path "x.st", { __metadata__ = ml.ones(1) }) ]], fails = "__metadata__" },
  { "saving two paths that collide", [[
      ml.save(path "x.st", { ["a/b"] = ml.ones(1), a = { b = ml.zeros(1) } }) ]], fails = "two tensors have the path 'a/b'" },
  { "saving a view, a transpose and an expanded tensor", [[
      local x = ml.arange(1, 6):view(2, 3)
      ml.save(path "x.st", { a = x:t(), b = x[2], c = ml.ones(1):expand(3, 4) })
      local t = ml.load "x.st"
      return t.a[{ 3, 2 }]:item(), t.b[1]:item(), t.c:sum():item() ]], gives = "6, 4, 12.0" },
  { "saving over a file that is loaded", [[
      ml.save(path "x.st", { x = ml.ones(1000) })
      local mapped = ml.load("x.st", { mmap = true }).x
      ml.save("x.st", { x = ml.zeros(10) })
      return mapped:sum():item(), ml.load("x.st").x:sum():item() ]], gives = "1000.0, 0.0" },
  { "a file cut off after it was loaded", [[
      ml.save(path "x.st", { x = ml.ones(100000) })
      local x = ml.load("x.st").x
      write("x.st", "")
      return x:sum():item() ]], gives = "100000.0" },

  -- Paths.
  { "saving into a folder that is not there", [[ ml.save("gone/x.st", { x = ml.ones(1) }) ]], fails = "save: 'gone/x.st'" },
  { "saving to a folder", [[ ml.save(".", { x = ml.ones(1) }) ]], fails = "save: '.'" },
  { "saving to an empty path", [[ ml.save("", { x = ml.ones(1) }) ]], fails = "save: ''" },
  { "saving to a path with a NUL", [[ ml.save("a\0b", { x = ml.ones(1) }) ]], fails = "save: " },
  { "saving to a path of 300 bytes", [[ ml.save(("a"):rep(300), { x = ml.ones(1) }) ]], fails = "save: .*[Nn]ame too long" },
  { "saving to a path of 255 bytes", [[
      ml.save(path(("a"):rep(255)), { x = ml.ones(1) })
      return ml.load(("a"):rep(255)).x:item() ]], gives = "1.0" },
  { "saving to a path of 100 KB", [[ ml.save(("a/"):rep(50000), { x = ml.ones(1) }) ]], fails = "save: .*[Nn]ame too long" },
  { "a path with newlines and quotes", [[
      ml.save(path "a\n'\"$(x) b", { x = ml.ones(1) })
      return ml.load("a\n'\"$(x) b").x:item() ]], gives = "1.0" },
  { "a path that is no UTF-8", [[
      ml.save(path "\xff\xfe", { x = ml.ones(1) })
      return ml.load("\xff\xfe").x:item() ]], gives = "1.0" },
  { "a path that is a number", [[ ml.save(7, { x = ml.ones(1) }) ]], fails = "save: .*path" },
  { "loading a folder", [[ return ml.load "." ]], fails = "load: '%.'" },
  { "loading what is not there", [[ return ml.load "gone.st" ]], fails = "load: 'gone.st'.*No such file" },
  { "loading /dev/null", [[ return ml.load "/dev/null" ]], fails = "load: '/dev/null'" },
  { "loading /dev/zero", [[ return ml.load "/dev/zero" ]], fails = "load: '/dev/zero'" },
  { "loading /proc/self/mem", [[ return ml.load "/proc/self/mem" ]], fails = "load: '/proc/self/mem'" },
  { "loading a path with a NUL", [[ return ml.load "a\0b" ]], fails = "load: " },
  { "saving to /dev/full", [[ ml.save("/dev/full", { x = ml.ones(100000) }) ]], fails = "save: '/dev/full'.*[Nn]o space" },
  { "saving to /dev/null", [[ ml.save("/dev/null", { x = ml.ones(10) }) ]], gives = "" },
  { "write_csv to /dev/full", [[ data.write_csv("/dev/full", ml.ones(1000, 10)) ]], fails = "write_csv.*/dev/full" },
  -- CSV.
  { "CSV with a missing field", [[ return data.read_csv(write("x.csv", "1,2\n3\n")) ]], fails = "read_csv.*line 2" },
  { "CSV with an empty field", [[ return data.read_csv(write("x.csv", "1,,3\n")) ]], fails = "read_csv.*column 2" },
  { "CSV with a word", [[ return data.read_csv(write("x.csv", "1,two\n")) ]], fails = "read_csv.*two" },
  { "CSV with a NUL", [[ return data.read_csv(write("x.csv", "1,2\0\n")) ]], fails = "read_csv.*line 1" },
  { "CSV with a quote that does not end", [[ return data.read_csv(write("x.csv", '1,"2\n')) ]], fails = "read_csv" },
  { "CSV of nothing", [[ return data.read_csv(write("x.csv", "")) ]], fails = "read_csv" },
  { "CSV of newlines", [[ return data.read_csv(write("x.csv", "\n\n\n")) ]], fails = "read_csv" },
  { "CSV without a last newline, with CR", [[ return data.read_csv(write("x.csv", "1,2\r\n3,4")):sum():item() ]], gives = "10.0" },
  { "CSV with a number of a megabyte", [[
      return data.read_csv(write("x.csv", ("1"):rep(1000000) .. "\n")) ]], fails = "out of range" },
  { "CSV with a word of a megabyte", [[
      return #message(data.read_csv, write("x.csv", ("x"):rep(1000000) .. "\n")) < 1000 ]], gives = "true" },
  { "CSV of numbers in many forms", [[
      return refused("read_csv", { "0x10", "1e", "--1", "1 2", "1_000", "+-1", ".", "e5", "1.2.3", "٣", "1d0", "nan(1)x" },
        function(text) data.read_csv(write("x.csv", text .. "\n")) end) ]], gives = "12 of 12" },
  { "CSV of a byte order mark", [[
      return data.read_csv(write("x.csv", "\xef\xbb\xbf1,2\n")):sum():item() ]], gives = "3.0" },
  { "CSV with a separator of three characters", [[
      return data.read_csv(write("x.csv", "1,2\n"), { separator = "abc" }) ]], fails = "separator" },
  { "CSV with a digit as separator", [[
      return data.read_csv(write("x.csv", "1,2\n"), { separator = "1" }) ]], fails = "separator" },
  { "CSV with a newline as separator", [[
      return data.read_csv(write("x.csv", "1,2\n"), { separator = "\n" }) ]], fails = "separator" },
  { "CSV as an integer dtype that is too small", [[
      return data.read_csv(write("x.csv", "300\n"), { dtype = ml.uint8 }) ]], fails = "read_csv" },
  { "CSV as integers, with a fraction", [[
      return data.read_csv(write("x.csv", "1.5\n"), { dtype = ml.int64 }) ]], fails = "read_csv" },
  { "CSV with a header alone", [[
      return data.read_csv(write("x.csv", "a,b\n"), { header = true }) ]], fails = "has no rows" },
  { "CSV of a folder", [[ return data.read_csv "." ]], fails = "read_csv: '%.'" },
  { "writing a cube as CSV", [[ data.write_csv(path "x.csv", ml.ones(2, 2, 2)) ]], fails = "write_csv" },
  { "a header of CSV with newlines", [[
      data.write_csv(path "x.csv", ml.ones(1, 2), { header = { "a\nb", 'c"d' } })
      local _, names = data.read_csv("x.csv", { header = true })
      return names[1] == "a\nb", names[2] ]], gives = "true, c\"d" },

  -- IDX and gzip.
  { "IDX cut off at each byte", [[
      local whole = idx({ 2, 3 }, "abcdef")
      local loaded = 0
      for n = 0, #whole - 1 do
        if pcall(data.read_idx, write("x.idx", whole:sub(1, n))) then loaded = loaded + 1 end
      end
      return loaded, data.read_idx(write("x.idx", whole)):sum():item() ]], gives = "0, 597" },
  { "IDX with bytes behind the data", [[ return data.read_idx(write("x.idx", idx({ 2 }, "abc"))) ]], fails = "read_idx" },
  { "IDX with sizes whose product wraps", [[
      return data.read_idx(write("x.idx", idx({ 0x80000000, 0x80000000, 4 }, ""))) ]], fails = "read_idx" },
  { "IDX that announces 16 exabytes", [[
      return data.read_idx(write("x.idx", idx({ 0xffffffff, 0xffffffff }, "abc"))) ]], fails = "read_idx" },
  { "IDX with a size of zero beside a huge one", [[
      return data.read_idx(write("x.idx", idx({ 0, 0xffffffff, 0xffffffff, 0xffffffff }, ""))) ]], fails = "read_idx" },
  { "IDX with 255 dimensions", [[ return data.read_idx(write("x.idx", "\0\0\8\xff" .. ("\0\0\0\1"):rep(255) .. "a")) ]],
    fails = "read_idx" },
  { "IDX of no dimensions", [[ return data.read_idx(write("x.idx", "\0\0\8\0a")):item() ]], gives = "97" },
  { "IDX of a type that nobody has", [[ return data.read_idx(write("x.idx", "\0\0\7\1\0\0\0\1a")) ]], fails = "read_idx" },
  { "IDX with a wrong start", [[ return data.read_idx(write("x.idx", "\1\0\8\1\0\0\0\1a")) ]], fails = "read_idx" },
  { "gzip of IDX", [[ return data.read_idx(write("x.idx.gz", gzip(idx({ 3 }, "\1\2\3")))):sum():item() ]], gives = "6" },
  { "gzip cut off at each byte", [[
      local whole = gzip(idx({ 3 }, "\1\2\3"))
      local loaded = 0
      for n = 0, #whole - 1 do
        if pcall(data.read_idx, write("x.idx.gz", whole:sub(1, n))) then loaded = loaded + 1 end
      end
      return loaded ]], gives = "0" },
  { "gzip with each byte turned over", [[
      local whole = gzip(idx({ 3 }, "\1\2\3"))
      local wrong = 0
      for n = 1, #whole do
        local bent = whole:sub(1, n - 1) .. string.char(whole:byte(n) ~ 0xff) .. whole:sub(n + 1)
        local ok, x = pcall(data.read_idx, write("x.idx.gz", bent))
        if ok and x:sum():item() ~= 6 then wrong = wrong + 1 end
      end
      return wrong ]], gives = "0" },
  { "gzip that announces more than it holds", [[
      return data.read_idx(write("x.idx.gz", gzip(idx({ 0x7fffffff }, "\1")))) ]], fails = "read_idx" },
  { "gzip twice, one behind the other", [[
      return data.read_idx(write("x.idx.gz", gzip(idx({ 3 }, "\1")) .. gzip "\2\3")):sum():item() ]], gives = "6" },
  { "gzip with rubbish behind it", [[
      return data.read_idx(write("x.idx.gz", gzip(idx({ 1 }, "\1")) .. "rubbish")):item() ]], gives = "1" },

  -- Files as storages.
  { "a storage of an empty file", [[ return #ml.Storage { file = write("x.bin", ""), dtype = ml.int8 } ]], gives = "0" },
  { "a storage of half an element", [[ return #ml.Storage { file = write("x.bin", "abc"), dtype = ml.int32 } ]],
    fails = "cannot map 'x.bin'.*no whole number" },
  { "a storage larger than its file", [[ return #ml.Storage { file = write("x.bin", "abcd"), dtype = ml.int32, size = 2 } ]],
    fails = "cannot map 'x.bin'" },
  { "a storage of 2^62 elements of a file", [[
      return #ml.Storage { file = write("x.bin", "abcd"), dtype = ml.int64, size = 1 << 62 } ]], fails = "Storage" },
  { "a storage of a negative part of a file", [[
      return #ml.Storage { file = write("x.bin", "abcd"), dtype = ml.int8, size = -1 } ]], fails = "Storage" },
  { "a storage of a folder", [[ return ml.Storage { file = ".", dtype = ml.int8 } ]], fails = "cannot map '.'" },
  { "a storage that may only be read, written", [[
      local s = ml.Storage { file = write("x.bin", "abcd"), dtype = ml.int8, read_only = true }
      s[1] = 5 ]], fails = "read%-only" },
  { "a storage that may only be read, written by an op", [[
      local s = ml.Storage { file = write("x.bin", "abcd"), dtype = ml.int8, read_only = true }
      ml.empty(0, { dtype = ml.int8 }):set_(s):zero_() ]], fails = "read%-only" },

  -- JSON.
  { "JSON nested a million deep", [[ return require "moonlet.json".decode(("["):rep(1000000)) ]], fails = "json" },
  { "JSON of hostile numbers", [[
      local json = require "moonlet.json"
      return refused("json", { "NaN", "Infinity", "-", "01", "1.", ".5", "0x1", "1e", "+1" }, json.decode) ]], gives = "9 of 9" },
  { "JSON of a table that contains itself", [[ local t = {} t[1] = t return require "moonlet.json".encode(t) ]], fails = "json" },
  { "JSON of a tensor", [[ return require "moonlet.json".encode { ml.ones(1) } ]], fails = "json" },
  { "JSON of NaN", [[ return require "moonlet.json".encode { 0/0 } ]], fails = "json" },

  -- Links, pipes and rights: processes of their own, as the shell must prepare them.
  { "a link to itself", [[ return ml.load "loop" ]], exit = 1, err = "load: 'loop'", setup = "ln -s loop loop", leaves = "loop" },
  { "saving to a link to itself", [[ ml.save("loop", { x = ml.ones(1) }) ]],
    exit = 1, err = "save: 'loop'", setup = "ln -s loop loop", leaves = "loop" },
  { "saving through a link keeps the link", [[
      ml.save("link", { x = ml.ones(1) })
      print(ml.load("target").x:item()) ]],
    exit = 0, out = "^1.0", setup = "ln -s target link", leaves = "link target" },
  { "loading a pipe that nobody writes", [[ return ml.load "pipe" ]],
    exit = 1, err = "load: 'pipe'", setup = "mkfifo pipe", leaves = "pipe" },
  { "read_csv of a pipe that nobody writes", [[ return data.read_csv "pipe" ]],
    exit = 1, err = "read_csv.*'pipe'", setup = "mkfifo pipe", leaves = "pipe" },
  { "read_idx of a pipe that nobody writes", [[ return data.read_idx "pipe" ]],
    exit = 1, err = "read_idx.*'pipe'", setup = "mkfifo pipe", leaves = "pipe" },
  { "a storage of a pipe", [[ return ml.Storage { file = "pipe", dtype = ml.int8 } ]],
    exit = 1, err = "cannot map 'pipe'", setup = "mkfifo pipe", leaves = "pipe" },
  { "saving to a pipe that nobody reads", [[ ml.save("pipe", { x = ml.ones(1) }) ]],
    exit = 1, err = "save: 'pipe'", setup = "mkfifo pipe", leaves = "pipe" },
  { "a picture that is saved into nowhere", [[
      ml.plot.line({ 1, 2 }):save "gone/x.svg" ]], exit = 1, err = "gone/x.svg" },
  { "saving under a limit of the file size", [[
      print(pcall(ml.save, "x.st", { x = ml.ones(100000) })) ]],
    exit = 0, out = "^false\t.*save: 'x.st'", setup = "trap '' XFSZ; ulimit -f 10" },
  { "saving without descriptors", [[
      local open = {}
      while true do local f = io.open "/dev/null" if not f then break end open[#open + 1] = f end
      local ok, message = pcall(ml.save, "x.st", { x = ml.ones(10) })
      open = nil
      collectgarbage()
      ml.save("x.st", { x = ml.ones(10) })
      print(ok, message:find "Too many open files" ~= nil, ml.load("x.st").x:sum():item()) ]],
    exit = 0, out = "^false\ttrue\t10.0", setup = "ulimit -n 40", leaves = "x.st", sanitized = "it opens pipes itself" },

  -- Other formats: a small file may not make its reader reserve much.
  { "an array of 4 TiB", [[
      local head = "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }"
      return ml.load(write("x.npy", "\x93NUMPY\1\0" .. ("<s2"):pack(head))) ]],
    fails = "load: 'x.npy': a shape wants more bytes than the file has" },
  { "a GGUF tensor of 2^62 elements", [[
      return ml.load(write("x.gguf", ("<c4 I4 i8 i8 s8 I4 i8 i8 I4 i8"):pack("GGUF", 3, 1, 0, "x", 2, 1 << 31, 1 << 31, 12, 0)
        .. ("\0"):rep(64))) ]], fails = "load: 'x.gguf': a shape wants more bytes" },
  { "a Torch7 storage of 2^40 elements", [[
      return ml.load(write("x.t7", ("<i4 i4 i4 c3 i4 c18 i8"):pack(4, 1, 3, "V 1", 18, "torch.FloatStorage", 1 << 40))) ]],
    fails = "load: 'x.t7': the file is cut off" },
  { "a pickle that calls what it likes", [[
      local zip = require "moonlet.files.zip_writer".new()
      zip:add("a/data.pkl", { "\x80\2cos\nsystem\nX\4\0\0\0true\x85R." })
      require "moonlet.io".write_parts(path "x.pt", zip:finish(), "save")
      return ml.load(path "x.pt") ]], fails = "load: 'x.pt': it holds a Python object of class os.system" },
  { "an index that leads out of its folder", [[
      return ml.load(write("x.index.json", '{"weight_map":{"a":"../../etc/passwd"}}')) ]],
    fails = "load: 'x.index.json': the weight_map names no file for 'a'" },
  { "a table of JPEG codes that is too long", [[
      return ml.data.read_image(write("x.jpg", "\xff\xd8\xff\xc4" .. (">I2"):pack(4000) .. ("\xff"):rep(4000) .. "\xff\xd9")) ]],
    fails = "read_image: 'x.jpg': the tables of a JPEG are damaged" },
  { "a JPEG whose scan names a table of codes that is not there", [[
      local head = "\xff\xd8\xff\xc0" .. (">I2 B I2 I2 B"):pack(11, 8, 8, 8, 1) .. "\1\x11\0"
      local codes = "\xff\xc4" .. (">I2"):pack(20) .. "\0\1" .. ("\0"):rep(15) .. "\0"
      local scan = "\xff\xda" .. (">I2 B"):pack(8, 1) .. "\1\0\0\x3f\0" .. ("\x55"):rep(20) .. "\xff\xd9"
      local all = {}
      for i = 1, 30 do all[i] = head .. (i % 2 == 0 and codes or "") .. scan end
      return refused("names a table that the file does not have", all, function(bytes)
        ml.data.read_image(write("x.jpg", bytes)) end) ]], gives = "30 of 30" },
  { "a WAV file of 2 GiB of samples", [[
      return ml.data.read_wav(write("x.wav", "RIFF\0\0\0\0WAVEfmt " .. ("<s4"):pack(("<I2 I2 I4 I4 I2 I2"):pack(1, 1, 8000, 16000, 2, 16))
        .. "data\0\0\0\x70")) ]], fails = "read_wav: 'x.wav': the file is cut off" },
  { "a WAV file that was written to a pipe and has no samples", [[
      return ml.data.read_wav(write("x.wav", "RIFF\0\0\0\0WAVEfmt " .. ("<s4"):pack(("<I2 I2 I4 I4 I2 I2"):pack(1, 1, 8000, 16000, 2, 16))
        .. "data\xff\xff\xff\xff")).shape ]], gives = "(1, 0)" },
}
