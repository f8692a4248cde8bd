-- stdlib/utils/tensorboard.lua: ml.utils.tensorboard: files that TensorBoard reads: numbers,
-- curves, histograms, images, sounds, meshes, texts, embeddings and hyperparameters of a run.

local class = require "moonlet.class"
local histogram = require "moonlet.utils.tensorboard.histogram"
local images = require "moonlet.utils.tensorboard.images"
local messages = require "moonlet.utils.tensorboard.messages"
local numbers = require "moonlet.numbers"
local options = require "moonlet.options"
local plugins = require "moonlet.utils.tensorboard.plugins"
local projector = require "moonlet.utils.tensorboard.projector"
local records = require "moonlet.utils.tensorboard.records"
local signature = require "moonlet.signature"
local system = require "moonlet.system"
require "moonlet.optim.plateau"  -- the type Metric
local fail = options.fail

local tensorboard = {}

--- Writes a run's values to an event file, which `tensorboard --logdir FOLDER` shows while it
--- grows. A writer can be held with `<close>`.
--- > folder = os.tmpname() .. ".runs"
--- > writer = ml.utils.tensorboard.SummaryWriter(folder)
--- > writer:add_scalar("loss", 0.5, 1)
--- > writer:close()
--- > writer:get_logdir() == folder
---   true
---@param log_dir? string the folder; "runs/DATE_HOST" and the comment unless given
---@param comment? string what the default folder's name ends with
---@param purge_step? integer what earlier files have from this step on no longer counts
---@param max_queue? integer after how many values they are written to disk
---@param flush_secs? number after how many seconds values are written to disk
---@param filename_suffix? string what the file's name ends with
local SummaryWriter = class.strict(class("SummaryWriter"), { "closed", "embeddings" })
tensorboard.SummaryWriter = SummaryWriter

local reader = signature('utils.tensorboard.SummaryWriter(string? log_dir=nil, string comment="", '
  .. 'int>=0? purge_step=nil, int>=1 max_queue=10, number>=0 flush_secs=120, '
  .. 'string filename_suffix="")')

-- Seconds since 1970; the part of a second comes from the clock that only goes forward.
local started, clock = os.time(), system.clock()
local function now() return started + system.clock() - clock end

local function host() return (system.getenv "HOSTNAME" or "localhost"):gsub("[^%w.-]", "_") end

-- How many files this process has made, which keeps their names apart.
local made = 0

local function open(self, folder)
  system.make_folder(folder, "SummaryWriter")
  local name = ("%s/events.out.tfevents.%010d.%s.%d.%d%s"):format(folder, os.time(), host(),
    system.pid(), made, self.options.filename_suffix)
  made = made + 1
  local file = records.open(name)
  file:write(messages.version(now()))
  file:flush()
  return file
end

function SummaryWriter:init(...)
  local o = reader:table(...)
  if o.filename_suffix:find("[/\\%z]") then
    fail "SummaryWriter: 'filename_suffix' must be the end of a file's name"
  end
  self.options = o
  self.log_dir = o.log_dir or ("runs/%s_%s%s"):format(os.date "%b%d_%H-%M-%S", host(), o.comment)
  self.file = open(self, self.log_dir)
  self.flushed, self.others = now(), {}
  if o.purge_step then
    self.file:write(messages.restart(now(), o.purge_step))
    self.file:flush()
  end
end

local function add(self, file, given, summary)
  if self.closed then fail "SummaryWriter: it is closed" end
  file:write(messages.event(given.walltime or now(), given.global_step, summary))
  local due = now() - self.flushed >= self.options.flush_secs
  if file.waiting >= self.options.max_queue then file:flush() end
  if due then self:flush() end
end

local WHEN = ", int? global_step=nil, number? walltime=nil"

local function declare(name, parameters)
  return signature(("SummaryWriter:%s(%s)"):format(name, parameters), "SummaryWriter: " .. name)
end

local read_scalar = declare("add_scalar", "string tag, Metric scalar_value" .. WHEN
  .. ", bool new_style=false, bool double_precision=false")

--- Adds a number. It is kept in float32, with `new_style` and `double_precision` in float64.
--- > writer = ml.utils.tensorboard.SummaryWriter(os.tmpname() .. ".runs")
--- > writer:add_scalar("loss/train", 0.5, 1)
---@param tag string the chart; "loss/train" is shown under "loss"
---@param scalar_value number|moonlet.Tensor a number, or a tensor of one element
---@param global_step? integer the step that the value belongs to
---@param walltime? number when the value was, in seconds since 1970; now unless given
---@param new_style? boolean whether it is written as a tensor
---@param double_precision? boolean whether it is kept in float64, with `new_style`
function SummaryWriter:add_scalar(...)
  local o = read_scalar:table(...)
  local style = o.new_style and (o.double_precision and "double" or "float") or nil
  add(self, self.file, o, messages.scalar(o.tag, o.scalar_value, style))
end

local read_scalars = declare("add_scalars", "string main_tag, dict tag_scalar_dict" .. WHEN)

-- The file of a run of its own inside this one's folder.
local function other(self, name)
  if self.closed then fail "SummaryWriter: it is closed" end
  local folder = self.log_dir .. "/" .. name
  self.others[folder] = self.others[folder] or open(self, folder)
  return self.others[folder]
end

local function sorted_names(where, t)
  local names = {}
  for name in pairs(t) do
    if type(name) ~= "string" then fail("%s: a table of values by name is expected", where) end
    names[#names + 1] = name
  end
  table.sort(names)
  return names
end

local function one_number(where, name, value)
  local ok, item = pcall(function() return value:item() end)
  local number = type(value) == "number" and value or ok and item
  if type(number) ~= "number" then
    fail("%s: '%s' must be a number or a tensor of one element, got %s", where, name,
      signature.describe(value))
  end
  return number
end

--- Adds several numbers to one chart. Each is a run of its own in a folder of this one's.
--- > writer = ml.utils.tensorboard.SummaryWriter(os.tmpname() .. ".runs")
--- > writer:add_scalars("loss", { train = 0.5, test = 0.7 }, 1)
---@param main_tag string the chart
---@param tag_scalar_dict table<string, number|moonlet.Tensor> numbers, or tensors of one
---   element, by name
---@param global_step? integer the step that the value belongs to
---@param walltime? number when the value was, in seconds since 1970; now unless given
function SummaryWriter:add_scalars(...)
  local o = read_scalars:table(...)
  local where = "SummaryWriter: add_scalars"
  for _, name in ipairs(sorted_names(where, o.tag_scalar_dict)) do
    local number = one_number(where, name, o.tag_scalar_dict[name])
    local folder = (o.main_tag .. "_" .. name):gsub("[/\\%z]", "_")
    add(self, other(self, folder), o, messages.scalar(o.main_tag, number))
  end
end

signature.add_choice("DefaultBins", { "tensorflow", "default", "auto", "doane", "fd", "rice",
  "scott", "sqrt", "stone", "sturges" })
local read_histogram = declare("add_histogram", "string tag, Tensor values, int? global_step=nil, "
  .. 'int>=1<=100000|number[]|DefaultBins bins="tensorflow", number? walltime=nil, '
  .. "int>=1? max_bins=nil")

--- Adds a histogram of a tensor's elements, as of weights or gradients.
--- > writer = ml.utils.tensorboard.SummaryWriter(os.tmpname() .. ".runs")
--- > writer:add_histogram("weights", ml.ones(10), 1)
---@param tag string the chart
---@param values moonlet.Tensor a real tensor of any shape
---@param global_step? integer the step that the value belongs to
---@param bins? string|integer|number[] "tensorflow" (widths grow with the distance from 0), a
---   number of equal bins, their edges, or a rule of NumPy: "auto", "doane", "fd", "rice",
---   "scott", "sqrt", "stone" or "sturges"
---@param walltime? number when the value was, in seconds since 1970; now unless given
---@param max_bins? integer the most bins; neighbours are joined beyond it
---@shape values (*)
function SummaryWriter:add_histogram(...)
  local o = read_histogram:table(...)
  local bins = o.bins == "default" and "tensorflow" or o.bins
  local where = "SummaryWriter: add_histogram"
  add(self, self.file, o, messages.histogram(o.tag, histogram(where, o.values, bins, o.max_bins)))
end

signature.add_choice("ImageFormat", { "CHW", "HWC", "HW" })
signature.add_choice("ImagesFormat", { "NCHW", "NHWC" })
local read_image = declare("add_image", "string tag, Tensor img_tensor" .. WHEN
  .. ', ImageFormat dataformats="CHW"')
local read_images = declare("add_images", "string tag, Tensor img_tensor" .. WHEN
  .. ', ImagesFormat dataformats="NCHW"')

--- Adds an image of 1, 3 or 4 channels: uint8 from 0 to 255, or other dtypes from 0 to 1.
--- > writer = ml.utils.tensorboard.SummaryWriter(os.tmpname() .. ".runs")
--- > writer:add_image("picture", ml.ones(3, 8, 8), 1)
---@param tag string the chart
---@param img_tensor moonlet.Tensor the image
---@param global_step? integer the step that the value belongs to
---@param walltime? number when the value was, in seconds since 1970; now unless given
---@param dataformats? string "CHW", "HWC" or "HW"
---@shape img_tensor (channels, height, width)
function SummaryWriter:add_image(...)
  local o = read_image:table(...)
  local where = "SummaryWriter: add_image"
  add(self, self.file, o, messages.image(o.tag, images.png(where, o.img_tensor, o.dataformats)))
end

--- Adds several images of one size as one, eight in a row.
--- > writer = ml.utils.tensorboard.SummaryWriter(os.tmpname() .. ".runs")
--- > writer:add_images("pictures", ml.ones(2, 3, 8, 8), 1)
---@param tag string the chart
---@param img_tensor moonlet.Tensor the images
---@param global_step? integer the step that the value belongs to
---@param walltime? number when the value was, in seconds since 1970; now unless given
---@param dataformats? string "NCHW" or "NHWC"
---@shape img_tensor (n, channels, height, width)
function SummaryWriter:add_images(...)
  local o = read_images:table(...)
  local where = "SummaryWriter: add_images"
  local grid = images.grid(where, o.img_tensor, o.dataformats)
  add(self, self.file, o, messages.image(o.tag, images.png(where, grid, "CHW")))
end

signature.add_type("Figure", "a figure of ml.plot", function(value)
  return type(value) == "table" and getmetatable(value) == require("moonlet.plot").Figure
    and value or nil
end)
local read_figure = declare("add_figure", "string tag, Figure figure" .. WHEN)

--- Adds a figure of `ml.plot` as a picture, drawn by cairo as `Figure:png` does.
--- > writer = ml.utils.tensorboard.SummaryWriter(os.tmpname() .. ".runs")
--- > writer:add_figure("curve", ml.plot.line { 1, 3, 2 }, 1)
---@param tag string the chart
---@param figure moonlet.plot.Figure what a function of `ml.plot` returned
---@param global_step? integer the step that the value belongs to
---@param walltime? number when the value was, in seconds since 1970; now unless given
function SummaryWriter:add_figure(...)
  local o = read_figure:table(...)
  local file = o.figure:png()
  local width, height = images.size(file)
  add(self, self.file, o, messages.image(o.tag, file, width, height, 3))
end

local read_text = declare("add_text", "string tag, string text_string" .. WHEN)

--- Adds a text, which TensorBoard shows as Markdown.
--- > writer = ml.utils.tensorboard.SummaryWriter(os.tmpname() .. ".runs")
--- > writer:add_text("note", "**first** run", 1)
---@param tag string the name
---@param text_string string the text, in UTF-8
---@param global_step? integer the step that the value belongs to
---@param walltime? number when the value was, in seconds since 1970; now unless given
function SummaryWriter:add_text(...)
  local o = read_text:table(...)
  if not utf8.len(o.text_string) then
    fail "SummaryWriter: add_text: 'text_string' must be UTF-8"
  end
  add(self, self.file, o, messages.text(o.tag, o.text_string))
end

local read_audio = declare("add_audio", "string tag, Tensor snd_tensor, int? global_step=nil, "
  .. "int>=1<=4294967295 sample_rate=44100, number? walltime=nil")

--- Adds sound of one channel.
--- > writer = ml.utils.tensorboard.SummaryWriter(os.tmpname() .. ".runs")
--- > writer:add_audio("tone", ml.zeros(1, 100), 1, 8000)
---@param tag string the name
---@param snd_tensor moonlet.Tensor samples from -1 to 1
---@param global_step? integer the step that the value belongs to
---@param sample_rate? integer samples per second
---@param walltime? number when the value was, in seconds since 1970; now unless given
---@shape snd_tensor (1, samples)
function SummaryWriter:add_audio(...)
  local o = read_audio:table(...)
  local file, frames = plugins.sound("SummaryWriter: add_audio", o.snd_tensor, o.sample_rate)
  add(self, self.file, o, messages.audio(o.tag, file, o.sample_rate, frames))
end

local read_pr_curve = declare("add_pr_curve", "string tag, Tensor labels, Tensor predictions, "
  .. "int? global_step=nil, int>=1 num_thresholds=127, Tensor|number? weights=nil, "
  .. "number? walltime=nil")

-- TensorBoard shows no more.
local MOST_THRESHOLDS = 127

--- Adds the precision-recall curve of predictions for two classes.
--- > writer = ml.utils.tensorboard.SummaryWriter(os.tmpname() .. ".runs")
--- > writer:add_pr_curve("pr", ml.tensor { 0, 1 }, ml.tensor { 0.2, 0.9 }, 1)
---@param tag string the chart
---@param labels moonlet.Tensor 0 or 1 for each example
---@param predictions moonlet.Tensor probabilities of 1, in [0, 1]
---@param global_step? integer the step that the value belongs to
---@param num_thresholds? integer number of thresholds, at most 127
---@param weights? moonlet.Tensor|number a weight for each example; 1 unless given
---@param walltime? number when the value was, in seconds since 1970; now unless given
---@shape labels (n), predictions (n), weights (n)
function SummaryWriter:add_pr_curve(...)
  local o = read_pr_curve:table(...)
  local count = math.min(o.num_thresholds, MOST_THRESHOLDS)
  local rows = plugins.pr_curve("SummaryWriter: add_pr_curve", o.labels, o.predictions, count,
    o.weights)
  add(self, self.file, o, messages.pr_curve(o.tag, rows, count))
end

-- No `dict`, so that a table behind the tensors holds options.
signature.add_type("MeshConfig", "a table", function(value)
  return type(value) == "table" and value or nil
end)
local read_mesh = declare("add_mesh", "string tag, Tensor vertices, Tensor? colors=nil, "
  .. "Tensor? faces=nil, MeshConfig? config_dict=nil, int? global_step=nil, number? walltime=nil")

--- Adds meshes, or clouds of points.
--- > writer = ml.utils.tensorboard.SummaryWriter(os.tmpname() .. ".runs")
--- > writer:add_mesh("cloud", ml.zeros(1, 5, 3))
---@param tag string the name
---@param vertices moonlet.Tensor coordinates of the points
---@param colors? moonlet.Tensor red, green and blue of each point, from 0 to 255
---@param faces? moonlet.Tensor positions, from 1, of each triangle's corners
---@param config_dict? table settings of the three.js that shows them, by name
---@param global_step? integer the step that the value belongs to
---@param walltime? number when the value was, in seconds since 1970; now unless given
---@shape vertices (n, points, 3), colors (n, points, 3), faces (n, triangles, 3)
function SummaryWriter:add_mesh(...)
  local o = read_mesh:table(...)
  local where = "SummaryWriter: add_mesh"
  local config = plugins.config(where, o.config_dict)
  add(self, self.file, o, messages.mesh(o.tag, plugins.mesh(where, o), config))
end

local read_custom_scalars = declare("add_custom_scalars", "dict layout")

--- Sets which tags of `add_scalar` are shown together in one chart. Once for a writer.
--- > writer = ml.utils.tensorboard.SummaryWriter(os.tmpname() .. ".runs")
--- > writer:add_custom_scalars { all = { loss = { "Multiline", { "loss/train", "loss/test" } } } }
---@param layout table<string, table<string, table>> `{ CATEGORY = { CHART = { "Multiline", {
---   tag, ... } } } }`, or `{ "Margin", { value, lower, upper } }`
function SummaryWriter:add_custom_scalars(...)
  local layout = plugins.checked_layout("SummaryWriter: add_custom_scalars",
    (read_custom_scalars(...)))
  add(self, self.file, {}, messages.custom_scalars(layout))
end

local read_embedding = declare("add_embedding", "Tensor mat, table? metadata=nil, "
  .. 'Tensor? label_img=nil, int>=0? global_step=nil, string tag="default", '
  .. "string[]? metadata_header=nil")

--- Adds points for TensorBoard's projector.
--- > writer = ml.utils.tensorboard.SummaryWriter(os.tmpname() .. ".runs")
--- > writer:add_embedding(ml.rand(3, 4), { "a", "b", "c" })
---@param mat moonlet.Tensor the points
---@param metadata? any[] a label for each point, or with `metadata_header` an array of labels
---@param label_img? moonlet.Tensor a picture for each point
---@param global_step? integer the step that the value belongs to
---@param tag? string the name
---@param metadata_header? string[] the names of the labels' columns
---@shape mat (points, dimensions), label_img (points, channels, height, width)
function SummaryWriter:add_embedding(...)
  local o = read_embedding:table(...)
  local where = "SummaryWriter: add_embedding"
  if self.closed then fail "SummaryWriter: it is closed" end
  self.embeddings = self.embeddings or {}
  table.insert(self.embeddings, projector.write(where, self.log_dir, o))
  projector.write_list(where, self.log_dir, self.embeddings)
end

local read_hparams = declare("add_hparams", "dict hparam_dict, dict metric_dict, "
  .. "dict? hparam_domain_discrete=nil, string? run_name=nil, int? global_step=nil")

local function hparam(where, name, value)
  local kind = type(value)
  if kind == "number" or kind == "string" or kind == "boolean" then return value end
  return one_number(where, name, value)
end

local function checked_domains(where, domains, hparams)
  for name, values in pairs(domains) do
    if hparams[name] == nil or type(values) ~= "table" then
      fail("%s: 'hparam_domain_discrete' has arrays of values by the names of hyperparameters; "
        .. "'%s' is none", where, name)
    end
    for _, value in ipairs(values) do
      if type(value) ~= type(hparams[name]) then
        fail("%s: 'hparam_domain_discrete': the values of '%s' must be of one type", where, name)
      end
    end
  end
  return domains
end

--- Adds a run with its hyperparameters and the metrics it came to, in a folder of its own.
--- > writer = ml.utils.tensorboard.SummaryWriter(os.tmpname() .. ".runs")
--- > writer:add_hparams({ lr = 0.1 }, { accuracy = 0.9 })
---@param hparam_dict table<string, number|string|boolean> numbers, strings and booleans by name
---@param metric_dict table<string, number|moonlet.Tensor> numbers, or tensors of one element,
---   by name
---@param hparam_domain_discrete? table<string, any[]> arrays of the values that hyperparameters
---   are chosen from, by name
---@param run_name? string the folder; the time unless given
---@param global_step? integer the step that the value belongs to
function SummaryWriter:add_hparams(...)
  local o = read_hparams:table(...)
  local where, hparams, metrics = "SummaryWriter: add_hparams", {}, {}
  for _, name in ipairs(sorted_names(where, o.hparam_dict)) do
    hparams[name] = hparam(where, name, o.hparam_dict[name])
  end
  for _, name in ipairs(sorted_names(where, o.metric_dict)) do
    metrics[name] = one_number(where, name, o.metric_dict[name])
  end
  local domains = checked_domains(where, o.hparam_domain_discrete or {}, hparams)
  local name = o.run_name or numbers.format("%.6f", now())
  local file = other(self, name)
  for _, summary in ipairs { messages.hparams(hparams, metrics, domains) } do
    add(self, file, {}, summary)
  end
  for _, metric in ipairs(sorted_names(where, metrics)) do
    add(self, file, o, messages.scalar(metric, metrics[metric]))
  end
end

local read_flush = declare("flush", "")

--- Writes waiting values to disk.
--- > writer = ml.utils.tensorboard.SummaryWriter(os.tmpname() .. ".runs")
--- > writer:flush()
function SummaryWriter:flush(...)
  read_flush(...)
  if self.closed then return end
  self.file:flush()
  for _, file in pairs(self.others) do file:flush() end
  self.flushed = now()
end

local read_close = declare("close", "")

--- Closes the files. Closing twice does nothing.
--- > writer = ml.utils.tensorboard.SummaryWriter(os.tmpname() .. ".runs")
--- > writer:close()
function SummaryWriter:close(...)
  read_close(...)
  if self.closed then return end
  self.closed = true
  self.file:close()
  for _, file in pairs(self.others) do file:close() end
end

function SummaryWriter.__close(self) self:close() end

--- The folder of the run.
--- > folder = os.tmpname() .. ".runs"
--- > ml.utils.tensorboard.SummaryWriter(folder):get_logdir() == folder
---   true
---@return string
function SummaryWriter:get_logdir() return self.log_dir end

return options.namespace("utils.tensorboard", tensorboard)
