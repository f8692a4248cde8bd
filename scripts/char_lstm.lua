-- scripts/char_lstm.lua: learns to write like a text, character by character, with an LSTM.
-- With tinyshakespeare.txt (1.1 MB) and the default options, seed 1: 1.579 nats per character on
-- the tenth held out, after 2.6 minutes of one core.

local ml = require "moonlet"
local data, nn, optim, F = ml.data, ml.nn, ml.optim, ml.nn.functional

local options = ml.args.parser {
  name = "char_lstm.lua",
  summary = "Learns to write like the text in a file, character by character.",
  { "text", "string", positional = true, required = true, help = "the file, in UTF-8" },
  { "epochs", "integer", default = 5, min = 1, help = "passes over the text" },
  { "hidden", "integer", default = 256, min = 1, help = "size of the LSTM's state" },
  { "layers", "integer", default = 1, min = 1, help = "LSTMs on one another" },
  { "window", "integer", default = 64, min = 1, help = "characters that gradients go back" },
  { "batch-size", "integer", default = 32, min = 1, help = "windows per step" },
  { "lr", "number", default = 0.004, min = 0, help = "learning rate" },
  { "seed", "integer", default = 1, help = "start of the random numbers" },
  { "checkpoint", "string", default = "char_lstm.ckpt", meta = "<file>",
    help = "where the run is kept after each epoch" },
  { "resume", "flag", help = "go on from the checkpoint; with no epochs left, only write" },
  { "prompt", "string", default = "\n", help = "what the sample goes on from" },
  { "length", "integer", default = 400, min = 0, help = "characters to write" },
  { "temperature", "number", default = 0.8, min = 0.01, help = "below 1 the likely is likelier" },
  { "figure", "string", meta = "<file>", help = "draw the losses: a .svg or .png" },
}:parse(arg)

local Net = nn.class("Net", nn.Module)

function Net:init(characters, hidden, layers)
  self.embedding = nn.Embedding(characters, 64)
  self.lstm = nn.LSTM(64, hidden, { num_layers = layers, batch_first = true })
  self.dropout = nn.Dropout(0.2)
  self.head = nn.Linear(hidden, characters)
end

-- The scores of each next character, (n, steps, characters), and the state after the last one.
function Net:forward(ids, state)
  local hidden, after = self.lstm(self.embedding(ids), state)
  return self.head(self.dropout(hidden)), after
end

local function loss_of(scores, targets)
  return F.cross_entropy(scores:flatten(1, 2), targets:flatten())
end

-- Draws one character after the other; the state stands for all that came before.
local function write(net, text)
  local _ <close> = ml.no_grad()
  net:eval()
  local ids = text:encode(options.prompt)
  local out, scores, state = { options.prompt }
  for i = 1, options.length do
    scores, state = net(ids:unsqueeze(1), state)
    ids = (scores[{ 1, -1 }] / options.temperature):softmax(1):multinomial(1)
    out[i + 1] = text:decode(ids:item())
  end
  return table.concat(out)
end

local function draw(history)
  local train, valid = {}, {}
  for i, row in ipairs(history) do train[i], valid[i] = row.loss, row.valid_loss end
  local figure = ml.plot.line({ train = train, validation = valid },
    { title = "Loss", x_label = "epoch", y_label = "nats per character" })
  figure:show(nil, { height = 10 })
  if options.figure then figure:save(options.figure) end
end

ml.manual_seed(options.seed)
-- The last tenth of the text is never trained on.
local train = data.CharDataset(options.text, options.window, { part = { 0, 0.9 } })
local valid = data.CharDataset(options.text, options.window, { part = { 0.9, 1 } })
print(("%d characters, %d different ones"):format(#train.ids + #valid.ids, #train.vocabulary))

local net = Net(#train.vocabulary, options.hidden, options.layers)
print(net)
local history = ml.train.fit {
  model = net, loss = loss_of, epochs = options.epochs,
  data = data.DataLoader(train, { batch_size = options.batch_size, shuffle = true }),
  valid = data.DataLoader(valid, { batch_size = options.batch_size }),
  optimizer = optim.Adam(net:parameters(), { lr = options.lr }), clip_grad_norm = 1,
  checkpoint = options.checkpoint, resume = options.resume,
  log = function(row)
    print(("epoch %2d/%d  loss %.6f  validation %.6f"):format(row.epoch, options.epochs, row.loss,
      row.valid_loss))
  end,
}
draw(history)
print("\n" .. write(net, train))
