-- tests/lua/interp/help_test.lua: help, apropos and `moonlet doc`; and that every public name has a text.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local class = require "moonlet.class"
local help = require "moonlet.help"
local index = require "moonlet.help.index"
local test, expect = harness.test, harness.expect

local source = os.getenv "MOONLET_SOURCE" or (arg[0]:match "^(.*)/" or ".") .. "/../../.."
local build = os.getenv "MOONLET_BUILD" or source .. "/build"

local function contains(text, part)
  if not text:find(part, 1, true) then error(("%q is not in:\n%s"):format(part, text), 2) end
end

-- --- every public name has a text ---------------------------------------------------------------

local missing, seen, checked

-- Notes a name whose text is missing or is no text.
local function need(name)
  checked = checked + 1
  local entry = index.find(name)
  local has_words = entry and entry.doc and entry.doc:find "%a%a+%A+%a"
  if not has_words then missing[#missing + 1] = name end
end

-- A name that stands for itself, not for another that ends like it.
local function need_exactly(name)
  local entry = index.by_name[name]
  if not entry then
    checked = checked + 1
    missing[#missing + 1] = name
  else
    need(name)
  end
end

local function is_public(key) return type(key) == "string" and not key:find "^_" end

-- A method counts as described where the class or one that it inherits from describes it.
local function need_method(owner, cls, name)
  checked = checked + 1
  local at = cls
  while at do
    local at_name = index.name_of(at)
    local entry = at_name and index.by_name[at_name .. "." .. name]
    if entry and entry.doc and entry.doc ~= "" then return end
    at = at.super
  end
  missing[#missing + 1] = owner .. "." .. name
end

local function is_method(key, value)
  return is_public(key) and type(value) == "function" and key ~= "init"
end

local function walk_class(name, cls)
  need_exactly(name)
  for key, value in pairs(cls) do
    if is_method(key, value) then need_method(name, cls, key) end
  end
  -- What a class has from one without a public name is described as its own, or where that has it from.
  local hidden = cls.super
  while hidden and not index.name_of(hidden) do
    for key, value in pairs(hidden) do
      if is_method(key, value) and not index.by_name[name .. "." .. key] then need_method(name, hidden, key) end
    end
    hidden = hidden.super
  end
end

local function walk(name, value)
  if class.is_class(value) then return walk_class(name, value) end
  need_exactly(name)
  if type(value) ~= "table" or seen[value] or class.of(value) then return end
  seen[value] = true
  for key, field in pairs(value) do
    if is_public(key) then walk(name .. "." .. key, field) end
  end
end

-- What serves other modules or the command line, or is Torch7's, and is no part of the interface.
local inner = { bundle = true, columns = true, convert = true, torch7 = true,
  functions = true, hooks = true, init = true,
  modes = true, options = true, profiler = true, record_ops = true,
  program = true, repl = true, serialize = true, signature = true, terminal = true }
local modules = { "autograd", "amp", "func", "utils", "nn", "optim", "data", "distributions", "args",
  "class", "plot", "progress", "help", "metrics", "train", "onnx", "cuda", "backends" }

local function check(walk_all, least)
  missing, seen, checked = {}, {}, 0
  walk_all()
  table.sort(missing)
  expect.truthy(checked >= least, ("only %d names were found"):format(checked))
  if #missing > 0 then
    error(#missing .. " names have no text: " .. table.concat(missing, ", "), 0)
  end
end

test("every function, module and constant of ml has a text", function()
  check(function()
    for _, name in ipairs(modules) do expect.truthy(ml[name]) end
    for name in pairs(dofile(source .. "/stdlib/init.lua")) do
      need_exactly(name)
    end
    for key, value in pairs(ml) do
      if is_public(key) and not inner[key] then walk(key, value) end
    end
    walk("json", require "moonlet.json")
    walk("numbers", require "moonlet.numbers")
  end, 500)
end)

test("every module that scripts can name has a text", function()
  check(function()
    local folder = source .. "/stdlib"
    for file in io.popen(("ls '%s'"):format(folder)):lines() do
      local name = file:match "^(.*)%.lua$"
      if name and not inner[name] then need_exactly(name) end
    end
  end, 8)
end)

test("every method and field of tensors has a text", function()
  check(function()
    for name in pairs(ml._methods) do
      if is_public(name) then need("Tensor." .. name) end
    end
    local text = io.open(source .. "/interp/binding/tensor/fields.cpp"):read "a"
    local fields = text:match "kFieldNames%[%] = (%b{})"
    for name in fields:gmatch '"([%w_]+)"' do need_exactly("Tensor." .. name) end
  end, 250)
end)

-- The methods that the metatable of an object offers.
local function need_methods_of(name, object)
  local methods = getmetatable(object)
  while type(methods) == "table" and type(rawget(methods, "__index")) == "table"
    and rawget(methods, "__index") ~= methods do
    methods = methods.__index
  end
  for key, value in pairs(methods) do
    if is_public(key) and type(value) == "function" and index.by_name[name .. "." .. key] == nil then
      checked = checked + 1
      missing[#missing + 1] = name .. "." .. key
    elseif is_public(key) and type(value) == "function" then
      need(name .. "." .. key)
    end
  end
end

test("every method of storages, generators, figures and profiles has a text", function()
  check(function()
    for name in pairs(ml._storage_methods) do need_exactly("Storage." .. name) end
    for name in pairs { dtype = 1, device = 1, nbytes = 1, itemsize = 1, is_mapped = 1, is_shared = 1,
      is_foreign = 1, is_read_only = 1 } do
      need_exactly("Storage." .. name)
    end
    for name in pairs(ml._sparse_methods) do need_exactly("SparseRows." .. name) end
    for name in pairs(ml._sparse_fields) do need_exactly("SparseRows." .. name) end
    for _, name in ipairs { "manual_seed", "seed", "initial_seed", "get_state", "set_state", "device" } do
      expect.truthy(name == "device" or ml.Generator()[name])
      need_exactly("Generator." .. name)
    end
    for _, name in ipairs { "numel", "tolist", "totable" } do need_exactly("Shape." .. name) end
    need_methods_of("plot.Figure", ml.plot.line { 1, 2 })
    for _, name in ipairs { "stop", "table", "events" } do need_exactly("Profile." .. name) end
    for _, name in ipairs { "over", "set", "update", "close" } do need_exactly("progress.Bar." .. name) end
    for _, name in ipairs { "parse", "try_parse", "usage" } do need_exactly("args.Parser." .. name) end
  end, 30)
end)

test("every op has a text, and all of its calls", function()
  check(function()
    ml._late()  -- from then on ops are in their tables
    for _, name in ipairs(ml.ops.list()) do
      local row = ml.ops.info(name).row
      local public = rawget(ml, row) or ml._methods[row] or ml._methods[row .. "_"]
      if public and not row:find "^_" then need(row) end
    end
  end, 400)
  for _, entry in ipairs(index.entries) do
    if entry.kind == "op" and not entry.same_as then
      expect.truthy(entry.calls and #entry.calls > 0, entry.name)
    end
  end
end)

test("the public functions of the installed header have a text", function()
  check(function()
    local entries = 0
    for _, entry in ipairs(index.entries) do
      if entry.name:find "^moonlet::" then
        entries = entries + 1
        need_exactly(entry.name)
      end
    end
    expect.truthy(entries >= 20)
    need_exactly "moonlet::Interpreter::run_string"
    need_exactly "moonlet::ScriptError"
  end, 20)
end)

test("every entry has a text, and what texts refer to exists", function()
  for _, entry in ipairs(index.entries) do
    expect.truthy(entry.doc or entry.same_as, entry.name)
    for _, name in ipairs(entry.see or {}) do expect.truthy(index.by_name[name], name) end
    if entry.parent then expect.truthy(index.by_name[entry.parent], entry.parent) end
    if entry.same_as then expect.truthy(index.by_name[entry.same_as].doc, entry.name) end
  end
end)

-- --- pages -------------------------------------------------------------------------------------

local folder, html = build .. "/interp/", build .. "/html/"

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

test("the editor stubs have every name and its text", function()
  local path = folder .. "op_stubs.lua"
  assert(loadfile(path))
  local text, words = read(path), {}
  for word in text:gmatch "[%w_]+" do words[word] = true end
  for _, entry in ipairs(index.entries) do
    local last = entry.name:match "[^.]+$"
    if not entry.name:find "::" then
      expect.truthy(words[last], entry.name)
      if entry.kind ~= "constant" and not entry.same_as then
        local line = index.first_line(entry.doc)
        expect.truthy(text:find(line, 1, true), entry.name .. ": " .. line)
      end
    end
  end
end)

test("the Markdown pages have every name and its text", function()
  local pages = {}
  for _, entry in ipairs(index.entries) do
    local text = pages[entry.page] or read(("%sreference/%s.md"):format(folder, entry.page))
    pages[entry.page] = text
    local heading = entry.name:gsub("_", "\\_")
    expect.truthy(entry.name == entry.page or text:find("# " .. heading .. "\n", 1, true), entry.name)
    if entry.doc and not entry.same_as then expect.truthy(text:find(entry.doc, 1, true), entry.name) end
  end
end)

test("links between the HTML pages lead somewhere, and the search knows every name", function()
  local index_file = io.open(html .. "index.js", "rb")
  if not index_file then harness.skip "built without lowdown" end
  local known = index_file:read "a"
  index_file:close()
  local pages, links = {}, 0
  for file in io.popen(("ls '%s'"):format(html)):lines() do
    if file:find "%.html$" then pages[file] = read(html .. file) end
  end
  for file, text in pairs(pages) do
    for address in text:gmatch 'href="([^"]*)"' do
      local to, anchor = address:match "^([^#]*)#?(.*)$"
      to = to == "" and file or to
      if not to:find "^https?:" and to:find "%.html$" then
        links = links + 1
        expect.truthy(pages[to], ("%s -> %s"):format(file, address))
        local there = anchor == "" or pages[to]:find(('id="%s"'):format(anchor), 1, true)
        expect.truthy(there, ("%s -> %s"):format(file, address))
      end
    end
  end
  expect.truthy(links > 1000, links)
  for _, entry in ipairs(index.entries) do
    local row = ('["%s", '):format(entry.name)
    local address = ('"%s.html#%s"'):format(entry.page, entry.name)
    expect.truthy(known:find(row, 1, true) and known:find(address, 1, true), entry.name)
    local anchor = entry.name == entry.page or pages[entry.page .. ".html"]:find(('id="%s"'):format(entry.name), 1, true)
    expect.truthy(anchor, entry.name)
  end
end)

-- The files of the HTML pages, or nil where they were not built.
local function html_file(name)
  local file = io.open(html .. name, "rb")
  if not file then return nil end
  local text = file:read "a"
  file:close()
  return text
end

test("the first HTML page has what a newcomer looks for", function()
  local front = html_file "index.html"
  if not front then harness.skip "built without lowdown" end
  for _, part in ipairs { "quickstart.sh", "nn.Sequential", "99 % right", 'href="guide.html"',
    'href="area-networks.html"' } do
    contains(front, part)
  end
  local pictures = 0
  for name in front:gmatch '<img src="([^"]*)"' do
    pictures = pictures + 1
    contains(html_file(name), "<svg")
  end
  expect.truthy(pictures >= 4, pictures)
end)

test("each page is in an area, which has its names with summaries and shapes", function()
  if not html_file "index.html" then harness.skip "built without lowdown" end
  local areas, all = {}, ""
  for name in html_file "index.html":gmatch 'href="(area%-[%w]+%.html)"' do
    if not areas[name] then all = all .. html_file(name) end
    areas[name] = true
  end
  for _, entry in ipairs(index.entries) do
    contains(all, ('href="%s.html"'):format(entry.page))
    local owner = entry.owner and index.by_name[entry.owner]
    if not (owner and owner.kind ~= "namespace") and entry.name ~= entry.page then
      contains(all, ('href="%s.html#%s"'):format(entry.page, entry.name))
    end
  end
  contains(html_file "area-elements.html", "<code>x (*), other (*) -&gt; (*), all broadcast together</code>")
end)

test("the HTML pages need nothing from elsewhere", function()
  local page = html_file "index.html"
  if not page then harness.skip "built without lowdown" end
  for file in io.popen(("ls '%s'"):format(html)):lines() do
    local text = html_file(file)
    for address in text:gmatch 'src="([^"]*)"' do
      expect.truthy(html_file(address), ("%s -> %s"):format(file, address))
    end
    expect.falsy(text:find "<link[^>]*https?:" or text:find "@import" or text:find "url%(http", file)
  end
end)

-- --- finding ------------------------------------------------------------------------------------

test("names are found as people write them", function()
  for _, way in ipairs { "exp", "ml.exp", "moonlet.exp", "x:exp", "Tensor.exp", "exp_", "x:exp_", "ml.exp(x)",
    "ml.exp()" } do
    contains(help.text(way), "ml.exp(x)")
  end
  for _, way in ipairs { "nn.Linear", "ml.nn.Linear", "Linear", "torch.nn.Linear" } do
    contains(help.text(way), "ml.nn.Linear(in_features, out_features")
  end
  contains(help.text "Tensor.backward", "x:backward(")
  contains(help.text "Tensor:backward", "x:backward(")
  contains(help.text "x.grad", "backward has accumulated")
  contains(help.text "DataLoader", "ml.data.DataLoader(")
  contains(help.text "nn.Linear.parameters", "net:parameters(")
  contains(help.text "Linear.weight", "(out_features, in_features)")
  contains(help.text "lr_scheduler.StepLR", "step_size")
  contains(help.text "moonlet::Interpreter::get", "Value get(")
  contains(help.text "nn", "Linear")
  contains(help.text "g:seed", "g:seed()")
  expect.equal(help.text "x:", help.text "Tensor")
  expect.equal(help.text "nn.", help.text "nn")
end)

test("values are found: functions, classes, objects, modules", function()
  expect.equal(help.text(ml.exp), help.text "exp")
  expect.equal(help.text(ml.ones(1).exp_), help.text "exp")
  expect.equal(help.text(ml.ones(1).backward), help.text "Tensor.backward")
  expect.equal(help.text(ml.nn.Linear), help.text "nn.Linear")
  expect.equal(help.text(ml.nn.Linear(1, 2)), help.text "nn.Linear")
  expect.equal(help.text(ml.nn.Module.parameters), help.text "nn.Module.parameters")
  expect.equal(help.text(ml.nn.Linear(1, 2).parameters), help.text "nn.Module.parameters")
  expect.equal(help.text(ml.nn.init), help.text "nn.init")
  expect.equal(help.text(ml.save), help.text "save")
  expect.equal(help.text(ml.plot.line { 1 }), help.text "plot.Figure")
  expect.equal(help.text(ml.plot.line), help.text "plot.line")
  expect.equal(help.text(ml.default_generator), help.text "default_generator")
  expect.equal(help.text(ml.Generator { seed = 2 }), help.text "Generator")
  expect.equal(help.text(ml.Generator().seed), help.text "Generator.seed")
  expect.equal(help.text(ml.cuda), help.text "cuda")
  expect.equal(help.text(ml.progress), help.text "progress")
  expect.equal(help.text(ml.optim.SGD { ml.nn.Parameter(ml.ones(1)) }), help.text "optim.SGD")
  expect.equal(help.text(require "moonlet.json".encode), help.text "json.encode")
  expect.equal(help.text(ml.distributions.Normal(0, 1)), help.text "distributions.Normal")
  expect.equal(help.text(ml.distributions.Normal(0, 1).log_prob),
    help.text "distributions.Distribution.log_prob")
  contains(help.text "distributions.constraints.simplex", "Vectors of nonnegative numbers whose sum is 1")
  contains(help.text "distributions.biject_to", "distributions.ConstraintRegistry")
  contains(help.text(ml.zeros(2, 3)), "a tensor of shape (2, 3), float32, on cpu")
  contains(help.text(ml.Storage(2)), "a storage of 2 elements, float32, on cpu")
end)

test("a script's own class shows what it comes from", function()
  local Net = ml.nn.class "Net"
  local Deep = ml.nn.class("Deep", Net)
  for _, subject in ipairs { Net, Net(), Deep, Deep() } do
    local text = help.text(subject)
    contains(text, "a kind of nn.Module")
    contains(text, "state_dict()")
  end
  contains(help.text(class "Alone"), "class Alone")
end)

test("what has no text says so", function()
  for _, subject in ipairs { function() end, 5, true, {}, io.stdout, coroutine.create(print) } do
    contains(help.text(subject), "of which there is no text")
  end
  for _, subject in ipairs { ml, "ml", "moonlet", "", "  " } do contains(help.text(subject), "help(") end
  contains(help.text(nil), "help(")
  contains(help.text(setmetatable({}, { __name = 5 })), "a table, of which")
  contains(help.text(setmetatable({}, { __index = error })), "a table, of which")
end)

test("unknown names get the close ones", function()
  contains(help.text "solfmax", "softmax")
  contains(help.text "nn.Linaer", "nn.Linear")
  contains(help.text "DatLoader", "data.DataLoader")
  contains(help.text "Tensor.bakward", "Tensor.backward")
  contains(help.text "no such thing", "nothing is called 'no such thing'")
  expect.falsy(help.text "zzqqzzqq":find "did you mean")
end)

test("apropos finds by name and by text", function()
  local text = help.search "norm"
  for _, name in ipairs { "norm ", "nn.LayerNorm", "nn.utils.clip_grad_norm_", "normalize", "batch_norm" } do
    contains(text, name)
  end
  contains(help.search "safetensors", "save")
  contains(help.search "one hot", "\n  one_hot ")
  contains(help.search " Hook  register", "Tensor.register_hook")
  contains(help.search "one zzqqzzqq", "nothing speaks of")
  contains(help.search "zzqqzzqq", "nothing speaks of")
  expect.error(function() help.search(5) end, "a word is expected")
end)

test("the classes of layers show their arguments and their op", function()
  local text = help.text "nn.Conv2d"
  contains(text, "in_channels, out_channels, kernel_size, stride=1")
  for line in text:gmatch "[^\n]+" do expect.truthy(#line <= 100, line) end
  expect.equal(text:match "^[^(]*", "ml.nn.Conv2d")
  contains(text, "See also: conv2d")
  contains(help.text "nn.LogSoftmax", "log_softmax")
end)

-- --- the command --------------------------------------------------------------------------------

local program = arg[-1]

local function run(arguments)
  local pipe = assert(io.popen(("'%s' %s 2>&1; echo \"status $?\""):format(program, arguments)))
  local text = pipe:read "a"
  pipe:close()
  return text:match "^(.-)\n?status (%d+)\n$"
end

test("moonlet doc prints the same text", function()
  local text, status = run "doc nn.Linear"
  expect.equal(text, help.text "nn.Linear")
  expect.equal(status, "0")
  text, status = run "doc no.such.name"
  contains(text, "nothing is called 'no.such.name'")
  expect.equal(status, "1")
  text, status = run "doc --search norm"
  expect.equal(text, help.search "norm")
  expect.equal(status, "0")
  text, status = run "doc"
  contains(text, "nn.functional")
  expect.equal(status, "0")
  text, status = run "doc a b"
  contains(text, "usage: moonlet doc")
  expect.equal(status, "1")
end)

test("apropos knows whole words, then their beginnings, and no parts", function()
  local function first(word) return help.search(word):match "^%s*(%S+)" end
  expect.equal(first "Linear", "linear")
  expect.equal(first "conv2d", "conv2d")
  contains(help.search "conv", "nn.Conv2d ")
  contains(help.search "batch norm", "nn.BatchNorm2d ")
  contains(help.search "hooks", "Tensor.register_hook")
  for part, word in pairs { rope = "propert", iou = "previous", oss = "Loss", ear = "Linear" } do
    expect.equal(help.search(part):find(word, 1, true), nil, part)
  end
end)

test("apropos and help know other words for a thing, and where PyTorch has it", function()
  for word, names in pairs(require "moonlet.help.synonyms") do
    expect.equal(word, word:lower())
    for _, name in ipairs(names) do
      expect.truthy(index.by_name[name], name)
      contains(help.search(word), index.find(name).name .. " ")
    end
  end
  local function finds(name, wanted) expect.equal(index.find(name).name, wanted, name) end
  finds("isinstance", "class.is_instance")
  finds("torch.nn.functional.relu", "nn.functional.relu")
  finds("torch.Tensor.unsqueeze", "unsqueeze")
  finds("torch.Tensor.nelement", "Tensor.numel")
  finds("numel", "Tensor.numel")
  finds("permute", "permute")
  finds("torch.Size", "Tensor.shape")
  finds("np.concatenate", "cat")
  finds("torch.utils.data.DataLoader", "data.DataLoader")
  finds("torch.utils.data.random_split", "data.random_split")
  finds("torchvision.transforms.Resize", "data.transforms.Resize")
  finds("torchvision.transforms.v2.Resize", "data.transforms.Resize")
  finds("torch.optim.lr_scheduler.StepLR", "optim.lr_scheduler.StepLR")
end)

test("help and apropos at the prompt", function()
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write "help(ml.nn.Linear)\napropos 'norm'\n"
  file:close()
  local text = run(("-i <'%s'"):format(path))
  os.remove(path)
  contains(text, "ml.nn.Linear(in_features")
  contains(text, "nn.LayerNorm")
end)

harness.run()
