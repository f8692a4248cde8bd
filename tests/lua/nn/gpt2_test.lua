-- tests/lua/nn/gpt2_test.lua: scripts/gpt2.lua on a tiny model in GPT-2's layout, against PyTorch's
-- numbers (tests/reference/make_gpt2.py); and that it refuses what is no GPT-2.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local json = require "moonlet.json"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect

local here = arg[0]:match "^(.*)/" or "."
local SCRIPT, FOLDER = here .. "/../../../scripts/gpt2.lua", here .. "/../../reference/gpt2_tiny"

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- What the script prints, errors as well.
local function run(folder, ...)
  if not arg[-1] then harness.skip "the interpreter's path is not known" end
  local words = { arg[-1], SCRIPT, folder, ... }
  for i, word in ipairs(words) do words[i] = quoted(word) end
  local process <close> = assert(io.popen(table.concat(words, " ") .. " 2>&1"))
  return process:read "a"
end

local EXPECTED = json.decode(read(FOLDER .. "/expected.json"))

test("the scores of all next tokens are PyTorch's", function()
  for _, wanted in ipairs(EXPECTED) do
    local out = run(FOLDER, "--prompt", wanted.prompt, "--next", "1000")
    local count, loss = out:match "^(%d+) tokens, ([%d.]+) nats"
    expect.equal(tonumber(count), wanted.count, wanted.prompt)
    expect.near(tonumber(loss), wanted.loss, 1e-4, wanted.prompt)
    local seen, before, total = 0, math.huge, 0
    for chance, score, token in out:gmatch "([%d.]+)%%  score +(%-?[%d.]+)  ([^\n]+)" do
      seen, total, score = seen + 1, total + tonumber(chance), tonumber(score)
      expect.near(score, wanted.scores[token], 1e-4, wanted.prompt .. ": " .. token)
      expect.truthy(score <= before, "the likeliest first")
      before = score
    end
    expect.equal(seen, 287)
    expect.near(total, 100, 1e-3)
  end
end)

local function write_likeliest(device)
  local tokenizer = ml.data.read_tokenizer(FOLDER .. "/vocab.json", FOLDER .. "/merges.txt",
    { special_tokens = { "<|endoftext|>" } })
  for _, wanted in ipairs(EXPECTED) do
    local ids = {}
    for i, token in ipairs(wanted.written) do ids[i] = tokenizer:id_of(token) end
    local out = run(FOLDER, "--prompt", wanted.prompt, "--top-k", "1", "--length",
      tostring(#ids - wanted.count), "--device", device)
    expect.equal(out, tokenizer:decode(ids) .. "\n")
  end
end

test("the likeliest tokens, written one by one, are PyTorch's", function() write_likeliest "cpu" end)

test("so they are from recorded steps on a CUDA device", function()
  if not ml.cuda.is_available() then harness.skip "no CUDA device" end
  write_likeliest "cuda"
  local one = run(FOLDER, "--length", "100", "--temperature", "3", "--device", "cuda")
  expect.truthy(#one > 60 and one:find "^The meaning of life is", one)
  expect.equal(run(FOLDER, "--length", "100", "--temperature", "3", "--device", "cuda"), one)
end)

test("it writes more than there are positions, the same for the same seed", function()
  local one = run(FOLDER, "--length", "100", "--temperature", "3")
  expect.truthy(#one > 60 and one:find "^The meaning of life is", one)
  expect.equal(run(FOLDER, "--length", "100", "--temperature", "3"), one)
  expect.truthy(run(FOLDER, "--length", "100", "--temperature", "3", "--seed", "2") ~= one)
end)

-- A copy of the folder with some files changed.
local function with_copy(changes, f)
  harness.with_temp_file(function(folder)
    os.execute(("cp -r '%s' '%s'"):format(FOLDER, folder))
    for name, content in pairs(changes) do
      local file <close> = assert(io.open(folder .. "/" .. name, "wb"))
      file:write(content)
    end
    local ok, message = pcall(f, folder)
    os.execute(("rm -r '%s'"):format(folder))
    if not ok then error(message, 0) end
  end)
end

test("names may have a prefix, and the last layer may be there again", function()
  local state = {}
  for name, tensor in pairs((ml.load(FOLDER .. "/model.safetensors"))) do
    state["transformer." .. name] = tensor
  end
  state["lm_head.weight"] = state["transformer.wte.weight"]
  with_copy({}, function(folder)
    ml.save(folder .. "/model.safetensors", state)
    expect.equal(run(folder, "--next", "3"), run(FOLDER, "--next", "3"))
  end)
end)

test("what is no such model is refused", function()
  local config = read(FOLDER .. "/config.json")
  local function changed(from, to)
    local out, count = config:gsub(from, to)
    expect.equal(count, 1)
    return { ["config.json"] = out }
  end
  local cases = {
    { changed("gelu_new", "relu"), "'activation_function' is relu; this script knows gelu_new" },
    { changed('"n_head": 3, ', ""), "'n_head' is missing" },
    { changed('"n_layer": 2', '"n_layer": 3'), "h%.2%.attn%.c_attn%.weight" },
    { changed('"n_embd": 24', '"n_embd": 48'), "load_state_dict: the state does not fit GPT2" },
    { changed('"n_head": 3', '"n_head": 7'), "'n_embd' is no multiple of 'n_head'" },
    { { ["config.json"] = "[" }, "config.json" },
    { { ["model.safetensors"] = "damaged" }, "model.safetensors" },
    { { ["merges.txt"] = "x y z\n" }, "merge 1 is no pair" },
  }
  for _, case in ipairs(cases) do
    with_copy(case[1], function(folder)
      expect.truthy(run(folder):find(case[2]), case[2] .. " in: " .. run(folder))
    end)
  end
  expect.truthy(run "/nowhere":find "No such file")
  expect.truthy(run(FOLDER, "--prompt", ""):find "the prompt has 0 tokens; 1 to 40 are expected")
  expect.truthy(run(FOLDER, "--prompt", ("1 "):rep(21)):find "the prompt has %d+ tokens")
end)

harness.run()
