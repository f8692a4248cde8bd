-- tests/lua/data/tokenizer_test.lua: byte-level BPE against Hugging Face's tokenizers 0.23 (ids plus 1),
-- its files and its training, and damaged files.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local json = require "moonlet.json"
local ml = require "moonlet"
local split_words = require "moonlet.data.split_words"
local system = require "moonlet.system"
local test, expect = harness.test, harness.expect
local data = ml.data

local CORPUS = { "the cat sat on the mat", "the hat that the cat had",
  "it's not the cat's mat, it's ours", "numbers: 12, 123 and 1234", "naïve café naïve café",
  "  indented\n  lines\n", "漢字 漢字 かな" }
local SPECIAL = { "<|end|>", "<pad>" }
local MERGES = "a t;t h;Ġ c;th e;' s;1 2;Ġ the;Ġ 12;Ġc at;a f;a Ã;i n;i t;m at;n aÃ;r s;v e;¢ å;"
  .. "¯ ve;¼ ¢å;Ã ©;ã ģ;æ ¼¢å;Ġ h;Ġ o;Ġ mat;Ń Ĺ;Ġc af;Ġ12 3;naÃ ¯ve;æ¼¢å ŃĹ;Ġcaf Ã©"
local CASES = {
  { "the cat's hat", { 262, 267, 263, 282, 259 } },
  { "  that\n\n mat \t1234", { 223, 223, 260, 259, 201, 201, 284, 223, 200, 264, 21, 22 } },
  { "naïve 漢字🙂½", { 288, 223, 289, 175, 256, 250, 227, 129, 124 } },
  { "<|end|>the<pad> mat<|en", { 1, 262, 2, 284, 30, 94, 71, 80 } },
  { "I'll they're 'S", { 43, 9, 78, 78, 265, 91, 9, 84, 71, 223, 9, 53 } },
  { "a\u{a0}b\u{3000}  c", { 67, 129, 257, 68, 162, 225, 225, 223, 261 } },
  { " ", { 223 } }, { "   ", { 223, 223, 223 } }, { "", {} },
}

local function trained()
  return data.train_tokenizer(CORPUS, { vocab_size = 290, special_tokens = SPECIAL })
end

local function merges_of(t)
  local out = {}
  for i, merge in ipairs(t.merges) do out[i] = merge[1] .. " " .. merge[2] end
  return out
end

local function check_cases(t)
  for _, case in ipairs(CASES) do
    local ids = t:encode(case[1])
    expect.equal(ids:totable(), case[2], case[1])
    expect.equal(ids.dtype, ml.int64)
    expect.equal(t:decode(ids, { skip_special_tokens = false }), case[1])
  end
end

test("training gives the same merges and ids", function()
  local t = trained()
  expect.equal(#t, 290)
  expect.equal(table.concat(merges_of(t), ";"), MERGES)
  check_cases(t)
  local i = 0
  local streamed = data.train_tokenizer(function()
    i = i + 1
    return CORPUS[i]
  end, 290, 2, SPECIAL)
  expect.equal(merges_of(streamed), merges_of(t))
  expect.equal(#data.train_tokenizer(CORPUS, { vocab_size = 9000, min_frequency = 3 }), 265)
  expect.equal(#data.train_tokenizer({}, 256), 256)
end)

test("special tokens, single ids and bytes that are no UTF-8", function()
  local t = trained()
  expect.equal(t:decode(t:encode "<|end|>the<pad>"), "the")
  expect.equal(t:encode("<pad>", false)[1]:item(), t:id_of "<")
  expect.equal({ t:id_of "<|end|>", t:token_of(262), t:decode(262), t:id_of "none" }, { 1, "the", "the" })
  for _, text in ipairs { "\xff\xfe a\x80b", "\xe6\xbc", "\0\1\2", "\xed\xa0\x80x" } do
    expect.equal(t:decode(t:encode(text)), text)
  end
  expect.equal(t:decode(t:encode("漢"):narrow(1, 1, 2)), ("漢"):sub(1, 2))
  local spaced = data.train_tokenizer(CORPUS, { vocab_size = 290, add_prefix_space = true })
  expect.equal(spaced:decode(spaced:encode "the"), " the")
  local long = ("xyzq"):rep(20000)
  expect.equal(t:decode(t:encode(long)), long)
end)

test("texts are cut as GPT-2 does", function()
  local function pieces(text)
    local out = {}
    for piece in split_words(text) do out[#out + 1] = piece end
    return table.concat(out, "|")
  end
  for text, wanted in pairs {
    ["a  b"] = "a| | b", ["a \n b "] = "a| \n| b| ", ["x1y²z"] = "x|1|y|²|z",
    ["we'll've 'd'''s"] = "we|'ll|'ve| '|d|'''|s", ["don't!!'t"] = "don|'t|!!'|t",
    [" \t"] = " \t", ["a\u{301}b"] = "a|\u{301}|b", [" ٣a"] = " ٣|a", ["\u{2003}\u{3000}x"] = "\u{2003}|\u{3000}|x",
  } do
    expect.equal(pieces(text), wanted)
  end
end)

test("files come back", function()
  local t = trained()
  harness.with_temp_file(function(path)
    t:save(path)
    local file = json.decode(system.read_file(path))
    expect.equal(file.model.vocab["<pad>"], 1)
    local read = data.read_tokenizer(path)
    check_cases(read)
    expect.equal(#read, 290)
    local vocab = {}
    for id = 3, #t do vocab[t:token_of(id)] = id - 1 end
    system.write_file(path, json.encode(vocab))
    harness.with_temp_file(function(merges)
      system.write_file(merges, "#version: 0.2\r\n" .. table.concat(merges_of(t), "\r\n") .. "\n")
      local other = data.read_tokenizer(path, merges, { special_tokens = { "<x>" } })
      expect.equal(other:encode("the cat's hat"):totable(), CASES[1][2])
      expect.equal({ #other, other:id_of "<x>" }, { 291, 291 })
    end)
    data.train_tokenizer({}, 256):save(path)
    expect.equal(#data.read_tokenizer(path), 256)
  end)
end)

test("damaged files and wrong arguments are named", function()
  local t = trained()
  harness.with_temp_file(function(path)
    t:save(path)
    local good = system.read_file(path)
    local function broken(change, wanted)
      local file = json.decode(good)
      change(file)
      system.write_file(path, json.encode(file))
      expect.error(function() data.read_tokenizer(path) end, "read_tokenizer.*" .. wanted)
    end
    broken(function(f) f.added_tokens[1].id = "x" end, "added token 1 is damaged")
    broken(function(f) f.added_tokens = 3 end, "added_tokens are no array")
    broken(function(f) f.added_tokens[1].id = 1 << 40 end, "added token 1 is damaged")
    broken(function(f) f.model.vocab = nil end, "its BPE has no vocab")
    for text, wanted in pairs { ["{"] = "it is no JSON", ["3"] = "it holds no object", [""] = "it is no JSON" } do
      system.write_file(path, text)
      expect.error(function() data.read_tokenizer(path) end, wanted)
    end
  end)
  expect.error(function() data.read_tokenizer "/nowhere/x.json" end, "/nowhere/x.json")
  local cases = {
    { function() data.ByteLevelBPE({ a = 0, b = 0 }, {}) end, "have one id, 0" },
    { function() data.ByteLevelBPE({ a = math.maxinteger }, {}) end, "integers from 0 on" },
    { function() data.ByteLevelBPE({ a = -1 }, {}) end, "integers from 0 on" },
    { function() data.ByteLevelBPE({ a = 0 }, { "a b" }) end, "'b' of merge 1 is not in the vocabulary" },
    { function() data.ByteLevelBPE({ a = 0 }, { 3 }) end, "merge 1 is no pair" },
    { function() data.ByteLevelBPE({ a = 0 }, {}):encode "b" end, "no token for 'b'" },
    { function() t:decode { 291 } end, "id 1, 291, is none of the 290 tokens, counted from 1" },
    { function() t:decode { 0 } end, "id 1, 0" },
    { function() t:decode(ml.ones(2)) end, "1%-D tensor of integers" },
    { function() t:encode(3) end, "'text' must be a string" },
    { function() data.train_tokenizer(CORPUS, 100) end, "at least 256" },
    { function() data.train_tokenizer({ 3 }, 300) end, "texts are strings, got 3" },
  }
  for i, case in ipairs(cases) do expect.error(case[1], case[2], "case " .. i) end
end)

test("CharDataset: windows of the characters of a part of a text", function()
  harness.with_temp_file(function(path)
    local function write(text)
      local file <close> = assert(io.open(path, "wb"))
      file:write(text)
    end
    write(("héllo wörld, "):rep(10))
    local train = data.CharDataset(path, 8, { part = { 0, 0.9 } })
    local valid = data.CharDataset(path, 8, { part = { 0.9, 1 }, stride = 1 })
    expect.equal({ #train.ids, #train, #valid.ids, #valid }, { 117, 14, 13, 5 })
    expect.equal(train.vocabulary.names, valid.vocabulary.names)
    expect.equal(#train.vocabulary, 10)
    expect.equal(train:decode(train[2][1]), "rld, hél")
    expect.equal(train:decode(train[2][2]), "ld, héll")
    local x, y = train:get_batch(ml.tensor { 2, 1 })
    expect.equal({ x.shape:totable(), train:decode(x[2]) }, { { 2, 8 }, "héllo wö" })
    expect.equal(train:decode(y[1]), "ld, héll")
    expect.equal(train:decode(train:encode "dör"), "dör")
    expect.equal(train:decode(train.vocabulary:encode "ö"), "ö")
    for batch_x, batch_y in data.DataLoader(train, { batch_size = 4 }) do
      expect.equal(batch_x[{ {}, { 2, -1 } }]:totable(), batch_y[{ {}, { 1, -2 } }]:totable())
    end
    local own = data.CharDataset(path, 2, { vocabulary = data.Categories({ "a" }, "?") })
    expect.equal(own[1][1]:totable(), { 2, 2 })
    expect.error(function() train:encode "x" end, "none of the categories")
    expect.error(function() train:encode "\255" end, "the text is not in UTF%-8")
    expect.error(function() data.CharDataset(path, 130) end, "a window of 130")
    expect.error(function() data.CharDataset(path, 2, { part = { 0.5, 0.2 } }) end, "0 characters")
    expect.error(function() data.CharDataset(path, 2, { part = { 0, 2 } }) end, "'part'")
    write "caf\233"
    expect.error(function() data.CharDataset(path, 1) end, "not in UTF%-8")
  end)
  expect.error(function() ml.data.CharDataset("/no/such/file", 1) end, "No such file")
end)

harness.run()
