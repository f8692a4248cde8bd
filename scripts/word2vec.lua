-- scripts/word2vec.lua: gives each word of a text a vector, so that words with like neighbours are
-- near one another: skip-grams with negative sampling (Mikolov et al., 2013).
-- With tinyshakespeare.txt (1.1 MB) and the default options, seed 1: a loss of 2.451, after 12
-- seconds of one core; `--words king,brother` shows richard, edward, ... and protector, ...

local ml = require "moonlet"
local data, nn, optim, F = ml.data, ml.nn, ml.optim, ml.nn.functional

local options = ml.args.parser {
  name = "word2vec.lua",
  summary = "Learns a vector for each word of a text, and shows which words are near one another.",
  { "text", "string", positional = true, required = true, help = "a file" },
  { "words", "list", of = "string", help = "show these (default: some frequent ones): king,love" },
  { "epochs", "integer", default = 5, min = 1, help = "passes over the text" },
  { "dim", "integer", default = 64, min = 2, help = "numbers for each word" },
  { "window", "integer", default = 4, min = 1, help = "words on each side that are neighbours" },
  { "negatives", "integer", default = 5, min = 1, help = "words drawn for each neighbour" },
  { "min-count", "integer", default = 5, min = 1, help = "leave out words that are rarer" },
  { "common", "number", default = 1e-3, min = 0,
    help = "words of a larger share of the text are left out at times; 0: never" },
  { "batch-size", "integer", default = 1024, min = 1, help = "pairs per step" },
  { "lr", "number", default = 0.005, min = 0, help = "learning rate" },
  { "seed", "integer", default = 1, help = "start of the random numbers" },
  { "out", "string", default = "word2vec.safetensors", help = "the file for words and vectors" },
  { "figure", "string", meta = "<file>", help = "draw the words in a plane: a .svg or .png" },
}:parse(arg)

local NEAREST, FREQUENT, SHOWN = 5, 40, 6

-- The words of the text that are not rare, as positions among `names`, the most frequent first, and
-- how often each is there.
local function read_words(path)
  local file, message = io.open(path, "rb")
  if not file then error(message, 0) end
  local text, counts, names, kept, numbers = file:read("a"):lower(), {}, {}, {}, {}
  file:close()
  for word in text:gmatch "[%w'\x80-\xff]+" do counts[word] = (counts[word] or 0) + 1 end
  for word, count in pairs(counts) do
    if count >= options.min_count then names[#names + 1] = word end
  end
  table.sort(names, function(a, b)
    if counts[a] == counts[b] then return a < b end
    return counts[a] > counts[b]
  end)
  if #names < 2 then error(("no two words are there %d times"):format(options.min_count), 0) end
  for i, word in ipairs(names) do numbers[i] = counts[word] end
  for word in text:gmatch "[%w'\x80-\xff]+" do
    if counts[word] >= options.min_count then kept[#kept + 1] = word end
  end
  local categories = data.Categories(names, { sort = false })
  return categories, categories:encode(kept), ml.tensor(numbers):float()
end

-- All pairs of words at most `window` apart, after common words were left out by chance.
local function pairs_of(ids, shares)
  if options.common > 0 then
    local chance = (options.common / shares):sqrt()
    ids = ids[ml.rand(#ids):lt(chance[ids])]
  end
  local words, neighbours = {}, {}
  for apart = 1, math.min(options.window, #ids - 1) do
    local left, right = ids[{ { 1, -apart - 1 } }], ids[{ { apart + 1, -1 } }]
    table.move({ left, right }, 1, 2, #words + 1, words)
    table.move({ right, left }, 1, 2, #neighbours + 1, neighbours)
  end
  if #words == 0 then error("the text is too short", 0) end
  return data.TensorDataset(ml.cat(words), ml.cat(neighbours))
end

local SkipGram = nn.class("SkipGram", nn.Module)

-- A step meets few of the words: the gradients hold the rows of these alone.
function SkipGram:init(words, dim)
  self.word = nn.Embedding(words, dim, { sparse = true })
  self.neighbour = nn.Embedding(words, dim, { sparse = true })
  nn.init.uniform_(self.word.weight, -0.5 / dim, 0.5 / dim)
  nn.init.zeros_(self.neighbour.weight)
end

-- How well each of the candidates, (n, k), goes with its word, (n).
function SkipGram:forward(words, candidates)
  return self.neighbour(candidates):bmm(self.word(words):unsqueeze(3)):squeeze(3)
end

-- The true neighbour is to have a high score, words drawn by chance low ones.
local function loss_of(net, words, neighbours, weights)
  local n = #words
  local drawn = weights:multinomial(n * options.negatives, true):view(n, -1)
  local scores = net(words, ml.cat({ neighbours:unsqueeze(2), drawn }, 2))
  local right = F.logsigmoid(scores[{ {}, 1 }])
  return -(right + F.logsigmoid(-scores[{ {}, { 2, -1 } }]):sum(2)):mean()
end

local function train_epoch(net, optimizer, set, weights, epoch)
  local loader = data.DataLoader(set, { batch_size = options.batch_size, shuffle = true })
  local bar <close> = ml.progress.new { total = #loader, unit = "batch",
    label = ("epoch %d/%d"):format(epoch, options.epochs) }
  local total = 0
  for words, neighbours in bar:over(loader) do
    local loss = loss_of(net, words, neighbours, weights)
    optimizer:zero_grad()
    loss:backward()
    optimizer:step()
    total = total + loss:item() * #words
    bar:set { loss = loss:item() }
  end
  return total / #set
end

-- The positions of the words nearest to one by the angle between the vectors, itself first.
local function nearest(vectors, position)
  local near, positions = vectors:mv(vectors[position]):topk(math.min(NEAREST + 1, #vectors))
  return positions, near
end

-- Prints the neighbours of each word, and draws them all in the plane in which they vary most.
local function show(vectors, categories, words)
  local groups, all = {}, {}
  for i, word in ipairs(words) do
    local positions, near = nearest(vectors, categories:encode(word))
    local list = {}
    for j, name in ipairs(categories:decode(positions)) do
      if j > 1 then list[#list + 1] = ("%s %.2f"):format(name, near[j]:item()) end
    end
    print(("%-12s %s"):format(word, table.concat(list, ", ")))
    groups[i], all[i] = vectors[positions], vectors[positions]
  end
  all = ml.cat(all)
  local _, _, directions = ml.pca_lowrank(all, 2)
  for i, group in ipairs(groups) do
    local at = (group - all:mean(1)):matmul(directions)
    groups[i] = { x = at[{ {}, 1 }], y = at[{ {}, 2 }], label = words[i] }
  end
  local figure = ml.plot.scatter(groups, { title = "Words, each with those nearest to it" })
  figure:show(nil, { height = 16 })
  if options.figure then figure:save(options.figure) end
end

ml.manual_seed(options.seed)
local categories, ids, counts = read_words(options.text)
local shown = options.words or table.move(categories.names, 1 + math.min(FREQUENT,
  math.max(#categories - SHOWN, 0)), math.min(FREQUENT + SHOWN, #categories), 1, {})
categories:encode(shown)  -- an unknown word is an error now, not after the training
print(("%d words, %d different ones"):format(#ids, #categories))

local net = SkipGram(#categories, options.dim)
local adam = optim.SparseAdam(net:parameters(), { lr = options.lr })
local weights, shares = counts ^ 0.75, counts / counts:sum()
for epoch = 1, options.epochs do
  local loss = train_epoch(net, adam, pairs_of(ids, shares), weights, epoch)
  print(("epoch %d/%d  loss %.6f"):format(epoch, options.epochs, loss))
end
show(F.normalize(net.word.weight:detach(), { dim = 2 }), categories, shown)
ml.save(options.out, { words = categories.names, vectors = net.word.weight:detach() })
print("Words and vectors: " .. options.out)
