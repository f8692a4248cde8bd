-- scripts/gpt2.lua: goes on from a text with GPT-2 (Radford et al., 2019), read from the files that
-- it is published in: a folder with config.json, model.safetensors, vocab.json and merges.txt.

local ml = require "moonlet"
local json = require "moonlet.json"
local nn, F = ml.nn, ml.nn.functional

local options = ml.args.parser {
  name = "gpt2.lua",
  summary = "Goes on from a text with a GPT-2 that is there already; nothing is downloaded.",
  { "folder", "string", positional = true, required = true,
    help = "has config.json, model.safetensors, vocab.json and merges.txt" },
  { "prompt", "string", default = "The meaning of life is", help = "the text to go on from" },
  { "length", "integer", default = 40, min = 0, help = "tokens to write, at most" },
  { "temperature", "number", default = 0.8, min = 0.01, help = "below 1 the likely is likelier" },
  { "top-k", "integer", default = 40, min = 1, help = "draw among so many of the likeliest" },
  { "next", "integer", default = 0, min = 0,
    help = "instead of writing, show so many of the likeliest next tokens" },
  { "device", "string", default = "cpu", help = "where to compute: cpu, cuda, cuda:1" },
  { "seed", "integer", default = 1, help = "start of the random numbers" },
}:parse(arg)

-- The sizes of the network. What would make it another than GPT-2 is refused.
local function read_config(path)
  local file, message = io.open(path, "rb")
  if not file then error(message, 0) end
  local ok, config = pcall(json.decode, file:read "a")
  file:close()
  if not ok or type(config) ~= "table" then error(path .. ": it holds no JSON object", 0) end
  local wanted = { activation_function = "gelu_new", scale_attn_weights = true,
    scale_attn_by_inverse_layer_idx = false, add_cross_attention = false,
    tie_word_embeddings = true }
  for name, value in pairs(wanted) do
    if config[name] ~= nil and config[name] ~= value then
      error(("%s: '%s' is %s; this script knows %s"):format(path, name, config[name], value), 0)
    end
  end
  for _, name in ipairs { "vocab_size", "n_positions", "n_embd", "n_layer", "n_head" } do
    if math.type(config[name]) ~= "integer" or config[name] < 1 then
      error(("%s: '%s' is missing"):format(path, name), 0)
    end
  end
  if config.n_embd % config.n_head ~= 0 then
    error(path .. ": 'n_embd' is no multiple of 'n_head'", 0)
  end
  if config.n_inner == json.null then config.n_inner = nil end
  return config
end

-- A linear layer whose weight is (inputs, outputs), as GPT-2's files have it.
local Conv1D = nn.class("Conv1D", nn.Module)

function Conv1D:init(inputs, outputs)
  self.weight = nn.Parameter(ml.zeros(inputs, outputs))
  self.bias = nn.Parameter(ml.zeros(outputs))
end

function Conv1D:forward(x)
  return x:matmul(self.weight) + self.bias
end

-- The modules have the names of the file: h.0.attn.c_attn.weight and so on.
local Block = nn.class("Block", nn.Module)

function Block:init(config)
  local dim, eps = config.n_embd, { eps = config.layer_norm_epsilon or 1e-5 }
  local inner = config.n_inner or 4 * dim
  self.heads = config.n_head
  self.ln_1 = nn.LayerNorm(dim, eps)
  self.attn = nn.ModuleDict { c_attn = Conv1D(dim, 3 * dim), c_proj = Conv1D(dim, dim) }
  self.ln_2 = nn.LayerNorm(dim, eps)
  self.mlp = nn.ModuleDict { c_fc = Conv1D(dim, inner), c_proj = Conv1D(inner, dim) }
end

-- `cache` has the keys and values of the tokens before in its layer of that number, and gets those
-- of `x` too.
function Block:attend(x, cache, number)
  local n, steps, dim = table.unpack(x.shape)
  local function split(t) return t:reshape(n, steps, self.heads, -1):transpose(2, 3) end
  local q, k, v = table.unpack(self.attn.c_attn(x):chunk(3, 3))
  local y = F.scaled_dot_product_attention(split(q), cache:update(number, split(k), split(v)))
  return self.attn.c_proj(y:transpose(2, 3):reshape(n, steps, dim))
end

function Block:forward(x, cache, number)
  x = x + self:attend(self.ln_1(x), cache, number)
  local inner = F.gelu(self.mlp.c_fc(self.ln_2(x)), { approximate = "tanh" })
  return x + self.mlp.c_proj(inner)
end

local GPT2 = nn.class("GPT2", nn.Module)

function GPT2:init(config)
  self.wte = nn.Embedding(config.vocab_size, config.n_embd)
  self.wpe = nn.Embedding(config.n_positions, config.n_embd)
  self.h = nn.ModuleList()
  for i = 1, config.n_layer do self.h[i] = Block(config) end
  self.ln_f = nn.LayerNorm(config.n_embd, { eps = config.layer_norm_epsilon or 1e-5 })
end

-- Memory for the keys and values of a text, of which no token was seen.
function GPT2:new_cache()
  local weight, heads = self.wpe.weight, self.h[1].heads
  return nn.StaticCache(#self.h, heads, self.wpe.num_embeddings, weight.shape[2] // heads,
    { dtype = weight.dtype, device = weight.device })
end

-- The scores of each next token, (1, steps, tokens). `ids` are those behind what the cache has
-- seen: several at first, then one by one.
function GPT2:forward(ids, cache)
  local steps = ids.shape[2]
  local x = self.wte(ids) + self.wpe(cache:positions(steps))
  for i, block in ipairs(self.h) do x = block(x, cache, i) end
  cache:advance(steps)
  return self.ln_f(x):matmul(self.wte.weight:t())  -- the embedding is the last layer, too
end

-- Some files name all below "transformer."; some hold the causal masks, and the last layer again.
local function read_weights(path)
  local state = {}
  for name, tensor in pairs((ml.load(path, { mmap = true }))) do
    name = name:gsub("^transformer%.", "")
    local computed = name:find "%.attn%.bias$" or name:find "%.attn%.masked_bias$"
    if not computed and name ~= "lm_head.weight" then state[name] = tensor end
  end
  return state
end

local function show_next(net, tokenizer, ids)
  local scores = net(ids:unsqueeze(1), net:new_cache())[1]
  local loss = #ids > 1 and F.cross_entropy(scores[{ { 1, -2 } }], ids[{ { 2, -1 } }]):item() or 0
  print(("%d tokens, %.5f nats for each behind the first"):format(#ids, loss))
  local chances = scores[-1]:softmax(1)
  local best, positions = scores[-1]:topk(math.min(options.next, scores.shape[2]))
  for i = 1, #best do
    local id = positions[i]:item()
    print(("%8.4f%%  score %9.5f  %s"):format(100 * chances[id]:item(), best[i]:item(),
      tokenizer:token_of(id)))
  end
end

-- Draws token after token, up to the end of a text. On a CUDA device each is a replay of a graph.
local function write(net, tokenizer, ids)
  local cache, last = net:new_cache(), tokenizer:id_of "<|endoftext|>"
  local next_token = cache:generate(ids, function(new)
    local scores = net(new:unsqueeze(1), cache)[{ 1, -1 }] / options.temperature
    local best, positions = scores:topk(math.min(options.top_k, #scores))
    return positions[best:softmax(1):multinomial(1)]
  end)
  local written = ids:tolist()
  for _ = 1, options.length do
    local id = next_token():item()
    if id == last then break end
    written[#written + 1] = id
  end
  print(tokenizer:decode(written))
end

ml.manual_seed(options.seed)
local _ <close> = ml.no_grad()
local config = read_config(options.folder .. "/config.json")
local tokenizer = ml.data.read_tokenizer(options.folder .. "/vocab.json",
  options.folder .. "/merges.txt", { special_tokens = { "<|endoftext|>" } })
local net = GPT2(config)
net:load_state_dict(read_weights(options.folder .. "/model.safetensors"))
net:eval():to(options.device)

local ids = tokenizer:encode(options.prompt):to(options.device)
if #ids == 0 or #ids > config.n_positions then
  error(("the prompt has %d tokens; 1 to %d are expected"):format(#ids, config.n_positions), 0)
end
if options.next > 0 then show_next(net, tokenizer, ids) else write(net, tokenizer, ids) end
