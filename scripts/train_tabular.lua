-- scripts/train_tabular.lua: learns from a CSV file with columns of numbers and of text, and fields
-- missing, which customers will leave; compares that with a guess, saves the model and uses it.

local ml = require "moonlet"
local data, nn, optim = ml.data, ml.nn, ml.optim

local here = arg[0]:match("^(.*)/") or "."
local NUMBERS, TEXTS, TARGET = { "age", "months", "calls", "bill" }, { "plan", "region" }, "left"
local HELD_OUT = 180  -- rows for validation, and as many for the test

local options = ml.args.parser {
  name = "train_tabular.lua",
  summary = "Learns from a table which customers will leave.",
  { "epochs", "integer", default = 60, min = 1, help = "passes over the training rows, at most" },
  { "patience", "integer", default = 12, min = 1, help = "epochs without progress until it stops" },
  { "lr", "number", default = 0.005, min = 0, help = "learning rate at the start" },
  { "seed", "integer", default = 1, help = "start of the random numbers" },
  { "out", "string", default = "customers.safetensors", help = "the file for the model" },
}:parse(arg)

-- The categories of the columns of text. A region that is missing, or was never seen before, is the
-- category "unknown"; of the target there are two, "no" is class 1 and "yes" class 2.
local function make_categories(texts_of)
  local out = { [TARGET] = data.Categories(texts_of(TARGET)) }
  for _, name in ipairs(TEXTS) do
    out[name] = data.Categories(texts_of(name), { unknown = "unknown" })
  end
  return out
end

-- The inputs of the network: numbers (rows, 4), NaN for a missing one, and the positions of the
-- texts among their categories (rows, 2).
local function inputs_of(t, categories)
  local positions = {}
  for i, name in ipairs(TEXTS) do positions[i] = categories[name]:encode(t:column(name)) end
  return t:tensor(NUMBERS), ml.stack(positions, 2)
end

local Net = nn.class("Net", nn.Module)

function Net:init(categories)
  -- Buffers are saved with the weights, but not trained.
  self:register_buffer("mean", ml.zeros(#NUMBERS))
  self:register_buffer("std", ml.ones(#NUMBERS))
  -- A category becomes three trained numbers; ml.one_hot would be the other way.
  self.embeddings = nn.ModuleList()
  for i, name in ipairs(TEXTS) do self.embeddings[i] = nn.Embedding(#categories[name], 3) end
  self.layers = nn.Sequential(
    nn.Linear(2 * #NUMBERS + 3 * #TEXTS, 32), nn.ReLU(), nn.Dropout(0.2),
    nn.Linear(32, 16), nn.ReLU(),
    nn.Linear(16, #categories[TARGET]))
end

-- Mean and deviation of each column, of the training rows alone: the network must not know others.
function Net:measure(numbers)
  for i = 1, #NUMBERS do
    local column = numbers[{ {}, i }]
    local known = column[~column:isnan()]
    self.mean[i], self.std[i] = known:mean(), known:std()
  end
end

-- Numbers come to mean 0 and deviation 1; a missing one becomes the mean, and is told apart.
function Net:forward(numbers, positions)
  local missing = numbers:isnan()
  local parts = { ((numbers - self.mean) / self.std):masked_fill(missing, 0), missing:float() }
  for i, embedding in ipairs(self.embeddings) do parts[i + 2] = embedding(positions[{ {}, i }]) end
  return self.layers(ml.cat(parts, 2))
end

-- Mean loss and share of right answers.
local function evaluate(net, numbers, positions, classes)
  local _ <close> = ml.no_grad()
  net:eval()
  local scores = net(numbers, positions)
  return ml.cross_entropy(scores, classes):item(),
    scores:argmax(2):eq(classes):float():mean():item()
end

-- Trains until the loss on the validation rows has not fallen for some epochs, and takes the best
-- weights, which are copied: a state dict refers to the tensors that go on changing.
local function train(net, train_set, ...)
  local loader = data.DataLoader(train_set, { batch_size = 32, shuffle = true })
  local adam = optim.AdamW(net:parameters(), { lr = options.lr, weight_decay = 0.01 })
  local schedule = optim.lr_scheduler.ReduceLROnPlateau(adam, { factor = 0.5, patience = 4 })
  local best_loss, best_epoch, best = math.huge, 0, {}
  local bar <close> = ml.progress.new { total = options.epochs, unit = "epoch" }
  for epoch = 1, options.epochs do
    net:train()
    for numbers, positions, classes in loader do
      adam:zero_grad()
      ml.cross_entropy(net(numbers, positions), classes):backward()
      adam:step()
    end
    local loss, accuracy = evaluate(net, ...)
    schedule:step(loss)
    if loss < best_loss then
      best_loss, best_epoch = loss, epoch
      for name, tensor in pairs(net:state_dict()) do best[name] = tensor:clone() end
    end
    bar:set { loss = loss, accuracy = ("%.1f%%"):format(100 * accuracy) }
    bar:update(1)
    if epoch - best_epoch >= options.patience then break end
  end
  net:load_state_dict(best)
  return best_epoch
end

local function save(path, net, categories)
  local names = {}
  for column, c in pairs(categories) do names[column] = c.names end
  ml.save(path, { model = net:state_dict(), categories = names })
end

-- Makes the network again from the file, and asks it about customers: the chances that they leave.
local function predict(path, customers)
  local file = ml.load(path)
  local categories = make_categories(function(column) return file.categories[column] end)
  local net = Net(categories):eval()
  net:load_state_dict(file.model)
  local chances = ml.no_grad(function() return net(inputs_of(customers, categories)):softmax(2) end)
  return chances[{ {}, categories[TARGET]:encode "yes" }]
end

ml.manual_seed(options.seed)
local t = data.read_table(here .. "/data/customers.csv")
print(t)
local categories = make_categories(function(column) return t:column(column) end)
local numbers, positions = inputs_of(t, categories)
local classes = categories[TARGET]:encode(t:column(TARGET))
local parts = ml.randperm(#t):split { #t - 2 * HELD_OUT, HELD_OUT, HELD_OUT }
local function rows_of(part) return numbers[part], positions[part], classes[part] end

local net = Net(categories)
net:measure(numbers[parts[1]])
local epoch = train(net, data.TensorDataset(rows_of(parts[1])), rows_of(parts[2]))
local _, accuracy = evaluate(net, rows_of(parts[3]))
local baseline = classes[parts[3]]:bincount():amax():item() / HELD_OUT
print(("\nTest accuracy: %.1f%% after epoch %d (always the most frequent answer: %.1f%%)"):format(
  100 * accuracy, epoch, 100 * baseline))
save(options.out, net, categories)
local customer = data.Table { { "age", { 23 } }, { "plan", { "basic" } }, { "region", { "" } },
  { "months", { 3 } }, { "calls", { 4 } }, { "bill", { 0 / 0 } } }  -- "" and NaN are missing
print(("Model: %s\nChance that a new customer leaves: %.0f%%"):format(options.out,
  100 * predict(options.out, customer):item()))
