-- tests/lua/data/tokenizer_json_test.lua: tokenizers of all kinds from the files of
-- tests/reference/tokenizer_files, which Hugging Face's tokenizers made and ran; Unicode's normalization
-- forms; damaged files.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local json = require "moonlet.json"
local ml = require "moonlet"
local raw = require "moonlet.io"
local regex = require "moonlet.regex"
local system = require "moonlet.system"
local unicode = require "moonlet.data.unicode"
local test, expect = harness.test, harness.expect
local data = ml.data

local FOLDER = (os.getenv "MOONLET_SOURCE" or ".") .. "/tests/reference/tokenizer_files/"
local reference = json.decode(system.read_file(FOLDER .. "cases.json"))

local PATTERNS = { llama3 = true, qwen2 = true, qwen35 = true, o200k = true, t5 = true, cut_word_pattern = true }

-- Calls f with a tokenizer, or sees that its file is refused where it needs a library that is not here.
local function with(name, f)
  local path, why = FOLDER .. name .. ".json", regex.unavailable()
  if not (why and PATTERNS[name]) then return f(data.read_tokenizer(path)) end
  expect.error(function() data.read_tokenizer(path) end, "read_tokenizer: '.*': its pattern '.*' needs PCRE2, and ")
end

for name, rows in pairs(reference.cases) do
  test("tokens of " .. name, function()
    with(name, function(t)
      local count = 0
      for _, row in ipairs(rows) do
        local text, pair = table.unpack(reference.texts[row[1] + 1])
        local options = { add_special_tokens = row[2], pair = pair ~= json.null and pair or nil }
        local ids, encoding = t:encode(text, options)
        local position = name .. ", text " .. row[1]
        expect.equal(ids:totable(), row[3], position)
        expect.equal(encoding.type_ids:totable(), row[4], position)
        expect.equal(encoding.attention_mask:totable(), row[5], position)
        local back = t:decode(ids)
        -- Bytes that are no UTF-8 are kept, where the reference has a sign for them.
        if utf8.len(back) and not back:find "Foo Bar" then expect.equal(back:lower(), row[6]:lower(), position) end
        count = count + 1
      end
      expect.truthy(count > 20)
    end)
  end)
end

test("ids, tokens, special tokens as text, batches", function()
  local t = data.read_tokenizer(FOLDER .. "bert_cased.json")
  expect.equal({ t:id_of "[CLS]", t:token_of(3), t:id_of "none", t:token_of(9999) }, { 3, "[CLS]", nil, nil })
  expect.equal(#t, 200)
  local ids = t:encode("the [MASK] tape", { special = false })
  expect.truthy(not table.concat(ids:totable(), " "):find("%f[%d]5%f[%D]"))
  expect.equal(t:encode "the [MASK] tape":totable()[3], 5)
  expect.equal(t:decode(t:encode "the tape"), "the tape")
  expect.equal(t:decode((t:encode "the tape"), false), "[CLS] the tape [SEP]")
  local rows, batch = t:encode_batch({ "the tape", "the gradient is on the tape" }, { pairs = { "the", "on" } })
  local types, masks = batch.type_ids, batch.attention_mask
  expect.equal(tostring(rows.shape), tostring(masks.shape))
  local first, beside = t:encode("the tape", { pair = "the" })
  expect.equal(rows[1][{ { 1, #first } }]:totable(), first:totable())
  expect.equal(types[1][{ { 1, #first } }]:totable(), beside.type_ids:totable())
  expect.equal({ masks[1]:sum():item(), rows[1][-1]:item(), masks[2]:min():item() }, { #first, 1, 1 })
  expect.error(function() t:encode_batch { "a", 3 } end, "'texts' must be")
  expect.error(function() t:encode_batch {} end, "there are no texts")
  expect.error(function() t:encode_batch({ "a" }, { pairs = { "b", "c" } }) end, "1 texts and 2 pairs")
  expect.error(function() t:encode_batch({ "a", "a b" }, { pad_token = "<none>" }) end, "no token '<none>'")
  expect.error(function() t:decode { 201 } end, "id 1, 201, is none of the 200 tokens, counted from 1")
  expect.error(function() t:decode(ml.ones(2)) end, "1%-D tensor of integers")
  with("llama3", function(other)
    expect.error(function() other:encode_batch { "a", "the tensor" } end, "'pad_token' is to fill them up")
    local filled = other:encode_batch({ "a", "the tensor" }, { pad_token = "<|end|>" })
    expect.equal(filled[1][-1]:item(), 2)
    -- Bytes that are no UTF-8 are kept.
    expect.equal(other:decode(other:encode "a\xff\xe4b"), "a\xff\xe4b")
  end)
end)

test("bytes that are no UTF-8 are taken by all", function()
  for name in pairs(reference.cases) do
    with(name, function(t)
      for _, text in ipairs { "\xff", "a\x80\x81b", "the \xe4 tape \xf0\x9f", "\xed\xa0\x80" } do
        expect.equal(type(t:decode(t:encode(text))), "string", name)
      end
    end)
  end
end)

test("a long text takes no more time for each of its words", function()
  with("llama3", function(t)
    expect.truthy(#t:encode(("the tensor is on the tape, "):rep(20000)) > 100000)
  end)
end)

test("normalization forms and lower case of all characters", function()
  -- Sums of what Python's unicodedata of Unicode 16 gives, with a line for each character.
  for form, wanted in pairs { NFC = 2731557124, NFD = 852722707, NFKC = 4006284214, NFKD = 3177829489,
    lower = 1907707283 } do
    local out = {}
    for code = 0, 0x10FFFF do
      if code < 0xD800 or code > 0xDFFF then
        out[#out + 1] = unicode.text(form == "lower" and unicode.lower { code } or unicode.normalize({ code }, form))
      end
    end
    expect.equal(raw.checksum { table.concat(out, "\n") }, wanted, form)
  end
  local function composed(text) return unicode.text(unicode.normalize(unicode.codes(text), "NFC")) end
  expect.equal(composed "e\u{301}\u{323} \u{1100}\u{1161}\u{11A8}\xff a\u{323}\u{302}", "\u{1EB9}\u{301} 각\xff \u{1EAD}")
end)

-- What comes of `part` in a file of words, changed by it.
local function file_with(part, model)
  local file = { model = model or { type = "WordLevel", vocab = { a = 0, ["?"] = 1 }, unk_token = "?" } }
  for name, value in pairs(part) do file[name] = value end
  return file
end

local function refused(file, wanted)
  harness.with_temp_file(function(path)
    system.write_file(path, json.encode(file))
    expect.error(function() data.read_tokenizer(path) end, "read_tokenizer: '[^']*': " .. wanted)
  end)
end

test("what is not known, or damaged, is refused by name", function()
  local deep = { type = "NFC" }
  for _ = 1, 20 do deep = { type = "Sequence", normalizers = { deep } } end
  for _, case in ipairs {
    { { normalizer = { type = "Magic" } }, "its normalizer is a Magic, which is not known here" },
    { { normalizer = 3 }, "its normalizer is no object" }, { { normalizer = deep }, "its normalizer is nested too deep" },
    { { normalizer = { type = "Precompiled", precompiled_charsmap = "?" } }, "its map of characters is no base64" },
    { { normalizer = { type = "Precompiled", precompiled_charsmap = "////fwAA" } }, "its map of characters is cut off" },
    { { normalizer = { type = "Replace", content = "", pattern = { String = "" } } },
      "the pattern of its Replace is empty" },
    { { normalizer = { type = "Replace", content = "" } }, "its Replace has no pattern" },
    { { normalizer = { type = "Prepend", prepend = 3 } }, "the prepend of its Prepend is a number, a string is expected" },
    { { pre_tokenizer = { type = "UnicodeScripts" } }, "its pre_tokenizer is a UnicodeScripts" },
    { { pre_tokenizer = { type = "Split", pattern = { String = "a" }, behavior = "Odd" } },
      "its Split has the behavior Odd" },
    { { pre_tokenizer = { type = "Metaspace", prepend_scheme = "odd" } }, "its Metaspace has the prepend_scheme odd" },
    { { post_processor = { type = "BertProcessing", cls = { "a", "x" }, sep = { "a", 1 } } },
      "the cls of its BertProcessing" },
    { { post_processor = { type = "TemplateProcessing", special_tokens = {},
      single = { { SpecialToken = { id = "x" } } } } }, "its template has the special token 'x'" },
    { { post_processor = { type = "TemplateProcessing", single = { { Sequence = { id = "B" } } } } },
      "its template 'single' has the text 'B'" },
    { { decoder = { type = "CTC" } }, "its decoder is a CTC" }, { { truncation = { max_length = -1 } },
      "its max_length is no size" },
    { { padding = { strategy = "Odd" } }, "its strategy Odd is not known here" },
    { { added_tokens = 3 }, "its added_tokens are no array" }, { { added_tokens = { { content = "" } } },
      "added token 1 is damaged" },
    { { added_tokens = { { content = "x", id = 0 } } }, "'a' and 'x' have one id, 0" },
    { {}, "its vocabulary is damaged", { type = "WordLevel", vocab = { a = "x" } } },
    { {}, "the tokens '.' and '.' have one id, 0", { type = "WordLevel", vocab = { a = 0, b = 0 } } },
    { {}, "its unk_token 'x' is not in its vocabulary", { type = "WordPiece", vocab = { a = 0 }, unk_token = "x" } },
    { {}, "its WordPiece has no unk_token", { type = "WordPiece", vocab = { a = 0 } } },
    { {}, "'b' of merge 1 is not in the vocabulary", { type = "BPE", vocab = { a = 0 }, merges = { "a b" } } },
    { {}, "merge 1 of its model is no pair", { type = "BPE", vocab = { a = 0 }, merges = { 3 } } },
    { {}, "its model drops merges at random", { type = "BPE", vocab = { a = 0 }, merges = { "a a" }, dropout = 0.1 } },
    { {}, "token 0 of its vocabulary is no text with a number", { type = "Unigram", vocab = { { "a" } } } },
    { {}, "its unk_id 7 is none of its 1 tokens", { type = "Unigram", vocab = { { "a", -1 } }, unk_id = 7 } },
    { {}, "its model is a Neural", { type = "Neural" } } } do
    refused(file_with(case[1], case[3]), case[2])
  end
  refused({ version = "1.0" }, "it has no model")
  if not regex.unavailable() then
    local function with_pattern(pattern) return file_with { pre_tokenizer = { type = "Split", behavior = "Isolated",
      pattern = { Regex = pattern } } } end
    refused(with_pattern "(a", "its pattern '%(a': missing closing parenthesis, at byte 3")
    refused(with_pattern "[a&&b]", "its pattern '.*' intersects classes")
    refused(with_pattern "\\h", "its pattern '.*' has \\h, which is not known")
    -- One that tries without end stops.
    harness.with_temp_file(function(path)
      system.write_file(path, json.encode(with_pattern "(?:a|a?)+c"))
      local t = data.read_tokenizer(path)
      expect.error(function() t:encode(("a"):rep(200) .. "bc") end, "the text cannot be matched: match limit exceeded")
    end)
  end
end)

harness.run()
