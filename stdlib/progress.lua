-- stdlib/progress.lua: progress bars on stderr. A bar is drawn only on a terminal, at most ten
-- times a second, and fits its width: label, bar, count, rate, time left and the values it is
-- given.

local numbers = require "moonlet.numbers"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local terminal = require "moonlet.terminal"

local tostring = numbers.tostring

local progress = {}

--- A progress bar, which `progress.new` makes; it ends by itself as a `<close>` variable.
--- > for i in ml.progress.new { out = io.tmpfile(), tty = false }:over(3) do print(i) end
---   1
---   2
---   3
---@class moonlet.progress.Bar
local Bar = {}
Bar.__index = Bar
Bar.__name = "progress.Bar"

local REDRAW_SECONDS = 0.1
local BLOCKS = { "▏", "▎", "▍", "▌", "▋", "▊", "▉" }

local function format_value(value)
  local kind = type(value)
  if (kind == "table" or kind == "userdata") and value.item then value = value:item() end
  if math.type(value) == "integer" then return tostring(value) end
  if type(value) ~= "number" then return tostring(value) end
  if value ~= value then return "nan" end
  if value ~= 0 and (math.abs(value) < 1e-3 or math.abs(value) >= 1e5) then
    return ("%.3g"):format(value)
  end
  return ("%.4f"):format(value)
end

local function format_time(seconds)
  if seconds < 10 then return ("%.1fs"):format(seconds) end
  seconds = math.floor(math.min(seconds, 359999) + 0.5)
  local hours, minutes = seconds // 3600, seconds // 60 % 60
  if hours > 0 then return ("%d:%02d:%02d"):format(hours, minutes, seconds % 60) end
  if minutes > 0 then return ("%d:%02d"):format(minutes, seconds % 60) end
  return seconds .. "s"
end

local function format_rate(rate, unit)
  if rate >= 1e6 then return ("%.1fM %s/s"):format(rate / 1e6, unit) end
  if rate >= 1e4 then return ("%.1fk %s/s"):format(rate / 1e3, unit) end
  if rate >= 1 or rate == 0 then return ("%.1f %s/s"):format(rate, unit) end
  return ("%.2f s/%s"):format(1 / rate, unit)
end

local read_bar = signature([[progress.new(string? label=nil, number>=0? total=nil, bool leave=true,
  any? out=nil, string unit="it", bool lines=false, bool? tty=nil, int>=1? width=nil,
  bool? ascii=nil, function? clock=nil)]], "progress")

--- Makes a progress bar. It is drawn to stderr where that is a terminal.
--- > bar = ml.progress.new { label = "epoch 1", total = 3, out = io.tmpfile(), tty = false }
--- > for i = 1, 3 do bar:update() end
--- > bar:close()
--- > for i in ml.progress.new { out = io.tmpfile(), tty = false }:over(2) do print(i) end
---   1
---   2
---@param label? string text in front of the bar
---@param total? number number of steps, where it is known
---@param leave? boolean whether the finished bar stays; false wipes it
---@param out? any the file to draw to; stderr unless given
---@param unit? string the name of a step
---@param lines? boolean whether a line is printed when the bar is done, where there is no terminal
---@param tty? boolean whether `out` is a terminal; found out unless given
---@param width? integer width in columns; the terminal's unless given
---@param ascii? boolean whether only ASCII characters are used; where the locale is not UTF-8
---   unless given
---@param clock? function gives the time in seconds; the system's unless given
---@return moonlet.progress.Bar
function progress.new(...)
  local self = setmetatable(read_bar:table(...), Bar)
  self.out = self.out or io.stderr
  if self.tty == nil then self.tty = terminal.isatty(2) end
  if self.ascii == nil then self.ascii = not terminal.utf8() end
  self.clock = self.clock or terminal.clock
  self.done, self.values, self.order = 0, {}, {}
  self.started = self.clock()
  self.drawn = -math.huge
  return self
end

local read_set = signature("Bar:set(dict values)", "progress: set")

--- Sets values to show at the end of the bar. New names appear in alphabetical order after those
--- already there. Tensors of one element are read when the bar is drawn.
--- > bar = ml.progress.new { out = io.tmpfile(), tty = false }
--- > bar:set { loss = 0.1 }
---@param values table numbers, strings or tensors of one element by name
function Bar:set(...)
  local values, fresh = read_set(...), {}
  for name, value in pairs(values) do
    if self.values[name] == nil then fresh[#fresh + 1] = name end
    self.values[name] = value
  end
  table.sort(fresh, function(a, b) return tostring(a) < tostring(b) end)
  table.move(fresh, 1, #fresh, #self.order + 1, self.order)
  self:draw_if_due()
end

local read_update = signature("Bar:update(number n=1, dict? values=nil)", "progress: update")

--- Advances the bar and sets values to show.
--- > bar = ml.progress.new { out = io.tmpfile(), tty = false }
--- > bar:update(1, { loss = 0.1 })
---@param n? number number of steps
---@param values? table values to show, as for `set`
function Bar:update(...)
  if self.closed then options.fail("progress: update of a closed bar") end
  local n, values = read_update(...)
  self.done = self.done + n
  if values then self:set(values) else self:draw_if_due() end
end

--- Ends the bar: draws it a last time and moves to the next line. Closing twice does nothing.
--- > bar = ml.progress.new { out = io.tmpfile(), tty = false }
--- > bar:close()
function Bar:close()
  if self.closed then return end
  self.closed = true
  if self.tty then
    if self.leave then
      self:draw()
      self.out:write("\n")
    else
      self.out:write("\r\27[K")
    end
  elseif self.lines then
    self.out:write(self:plain_line(), "\n")
  end
  self.out:flush()
end

Bar.__close = Bar.close

function Bar:draw_if_due()
  if not self.tty or self.closed then return end
  local now = self.clock()
  if now - self.drawn < REDRAW_SECONDS then return end
  self.drawn = now
  self:draw()
end

function Bar:draw()
  -- The last column stays free: some terminals wrap when it is filled.
  local width = (self.width or terminal.size()) - 1
  self.out:write("\r", self:text(width), "\27[K")
  self.out:flush()
end

function Bar:values_text()
  local parts = {}
  for _, name in ipairs(self.order) do
    parts[#parts + 1] = ("%s=%s"):format(name, format_value(self.values[name]))
  end
  return table.concat(parts, " ")
end

function Bar:count_text()
  local done = ("%d"):format(math.floor(self.done))
  if not self.total then return done end
  local total = ("%d"):format(math.floor(self.total))
  return (" "):rep(#total - #done) .. done .. "/" .. total
end

-- Elapsed seconds, rate per second and, with a total, seconds left (nil where unknown).
function Bar:timing()
  local elapsed = math.max(self.clock() - self.started, 0)
  local rate = elapsed > 0 and self.done / elapsed or 0
  local left = self.total and rate > 0 and math.max(self.total - self.done, 0) / rate or nil
  return elapsed, rate, left
end

function Bar:plain_line()
  local elapsed, rate = self:timing()
  local parts = { self:count_text(), format_time(elapsed), format_rate(rate, self.unit) }
  if self.label then table.insert(parts, 1, self.label) end
  if #self.order > 0 then parts[#parts + 1] = self:values_text() end
  return table.concat(parts, "  ")
end

function Bar:fraction()
  if not self.total then return nil end
  if self.total == 0 then return 1 end
  return math.min(math.max(self.done / self.total, 0), 1)
end

-- The bar itself, `width` columns.
function Bar:gauge(width)
  local filled = self:fraction() * width
  local whole = math.floor(filled)
  if self.ascii then return "[" .. ("#"):rep(whole) .. ("."):rep(width - whole) .. "]" end
  local eighth = math.floor((filled - whole) * 8)
  local text = ("█"):rep(whole) .. (BLOCKS[eighth] or "")
  return "▕" .. terminal.pad(text, width) .. "▏"
end

-- The line for `width` columns. What does not fit goes in this order: the rate, the time, the end
-- of the values, the end of the label.
function Bar:text(width)
  local elapsed, rate, left = self:timing()
  local label = self.label and self.label .. " " or ""
  local count = self:count_text()
  local time = (left and not self.closed) and "<" .. format_time(left) or format_time(elapsed)
  local values = self:values_text()
  local tails = {
    { count, format_rate(rate, self.unit), time, values },
    { count, time, values },
    { count, values },
    { count },
  }
  local MIN_GAUGE, MAX_GAUGE = 8, 40
  local gauge_columns = self.total and MIN_GAUGE + 2 or 0
  for _, parts in ipairs(tails) do
    if parts[#parts] == "" then parts[#parts] = nil end
    local tail = table.concat(parts, " ")
    local free = width - terminal.width_of(label) - terminal.width_of(tail) - gauge_columns - 1
    if free >= 0 then
      if not self.total then return label .. tail end
      return label .. self:gauge(math.min(MIN_GAUGE + free, MAX_GAUGE)) .. " " .. tail
    end
  end
  return terminal.cut(label .. count, width)
end

Bar.text = numbers.wrap(Bar.text)
Bar.plain_line = numbers.wrap(Bar.plain_line)

-- A function that gives the next item(s), with its state, for what can be iterated over.
local function iterator_of(iterable)
  local kind = type(iterable)
  if math.type(iterable) == "integer" then
    local i = 0
    return function()
      i = i + 1
      if i <= iterable then return i end
    end
  elseif kind == "function" then
    return iterable
  elseif kind == "table" or kind == "userdata" then
    local meta = getmetatable(iterable)
    if type(meta) == "table" and kind == "table" and iterable.iter then
      return iterable:iter()
    elseif type(meta) == "table" and meta.__call then
      return iterable
    elseif kind == "table" then
      local i = 0
      return function()
        i = i + 1
        return iterable[i]
      end
    end
  end
  options.fail("progress: cannot iterate over a %s", kind)
end

local function length_of(iterable)
  if math.type(iterable) == "integer" then return math.max(iterable, 0) end
  if type(iterable) ~= "table" and type(iterable) ~= "userdata" then return nil end
  local meta = getmetatable(iterable)
  if type(meta) == "table" and meta.__len or not meta then return #iterable end
  return nil
end

--- Iterates over `iterable` and advances the bar by one for each item; the bar closes when the loop
--- ends or is left.
--- > bar = ml.progress.new { out = io.tmpfile(), tty = false }
--- > for x in bar:over { "a", "b" } do print(x) end
---   a
---   b
---@param iterable any an array (its items come, without positions), an object with a method
---   `iter`, an iterator function, or an integer n
---@param state? any the state of an iterator function
---@param control? any its first control variable
function Bar:over(iterable, state, control)
  local step, own_state, own_control = iterator_of(iterable)
  if own_state ~= nil or own_control ~= nil then state, control = own_state, own_control end
  if not self.total then
    self.total = read_bar:subset("progress", { total = length_of(iterable) }).total
  end
  local started = false
  local function advance(first, ...)
    if first == nil then
      self:close()
      return nil
    end
    control = first
    return first, ...
  end
  local function next_item()
    if started then self:update(1) end
    started = true
    self:draw_if_due()
    return advance(step(state, control))
  end
  return next_item, nil, nil, self
end

--- `for batch in progress(loader, { label = "epoch 1" }) do` is short for
--- `progress.new { label = "epoch 1" }:over(loader)`.
---@param _ table
---@param iterable any
---@param ... any as in `progress.new`
local function over(_, iterable, ...)
  return progress.new(...):over(iterable)
end

return options.namespace("progress", setmetatable(progress, { __call = over }))
