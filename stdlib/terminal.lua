-- stdlib/terminal.lua: what progress bars and plots need to know of the terminal: is there one,
-- how wide is it, does it take UTF-8 and colour, and how many columns does a text fill.

local has_system, system = pcall(require, "moonlet.system")
if not has_system or type(system) ~= "table" then system = {} end

local terminal = {}

--- Whether file descriptor `fd` (1 is stdout, 2 is stderr) is a terminal.
---@param fd integer
---@return boolean
function terminal.isatty(fd)
  return system.isatty ~= nil and system.isatty(fd) == true
end

--- Columns and rows of the terminal; 80 x 24 where that cannot be found out.
---@return integer columns
---@return integer rows
function terminal.size()
  local columns, rows
  if system.terminal_size then columns, rows = system.terminal_size() end
  if not columns or columns < 1 then columns = math.tointeger(tonumber(os.getenv("COLUMNS"))) end
  if not columns or columns < 1 then columns = 80 end
  if not rows or rows < 1 then rows = 24 end
  return columns, rows
end

--- Seconds on a clock that only goes forward.
---@return number
function terminal.clock()
  return (system.clock or os.clock)()
end

--- Whether the locale says that text is UTF-8, which it is on Windows where no variable says more.
---@return boolean
function terminal.utf8()
  for _, name in ipairs { "LC_ALL", "LC_CTYPE", "LANG" } do
    local value = os.getenv(name)
    if value and value ~= "" then return value:lower():find("utf%-?8") ~= nil end
  end
  return package.config:sub(1, 1) == "\\"
end

--- Whether text written to `fd` may carry colour: a terminal, and NO_COLOR (no-color.org) unset.
---@param fd integer
---@return boolean
function terminal.color(fd)
  local no_color = os.getenv("NO_COLOR")
  return terminal.isatty(fd) and (no_color == nil or no_color == "")
    and os.getenv("TERM") ~= "dumb"
end

local WIDE = {
  { 0x1100, 0x115F }, { 0x2E80, 0x303E }, { 0x3041, 0xA4CF }, { 0xAC00, 0xD7A3 },
  { 0xF900, 0xFAFF }, { 0xFE30, 0xFE6F }, { 0xFF00, 0xFF60 }, { 0xFFE0, 0xFFE6 },
  { 0x1F300, 0x1F64F }, { 0x1F900, 0x1F9FF }, { 0x20000, 0x3FFFD },
}

local function code_width(code)
  if code >= 0x300 and code <= 0x36F then return 0 end
  for _, range in ipairs(WIDE) do
    if code >= range[1] and code <= range[2] then return 2 end
  end
  return 1
end

--- Columns that `text` fills: escape sequences count nothing, wide characters two.
---@param text string
---@return integer
function terminal.width_of(text)
  text = text:gsub("\27%[[%d;]*m", "")
  if not text:find("[\128-\255]") then return #text end
  if not utf8.len(text) then return #text end
  local width = 0
  for _, code in utf8.codes(text) do width = width + code_width(code) end
  return width
end

--- `text` (without escape sequences) cut to at most `width` columns.
---@param text string
---@param width integer
---@return string
function terminal.cut(text, width)
  if terminal.width_of(text) <= width then return text end
  if not utf8.len(text) then return text:sub(1, math.max(width, 0)) end
  local used, stop = 0, 0
  for position, code in utf8.codes(text) do
    used = used + code_width(code)
    if used > width then break end
    stop = utf8.offset(text, 2, position) - 1
  end
  return text:sub(1, stop)
end

--- `text` padded with spaces to `width` columns; `align` is "left" (default), "right", "center".
---@param text string
---@param width integer
---@param align? string
---@return string
function terminal.pad(text, width, align)
  local gap = math.max(width - terminal.width_of(text), 0)
  local before = align == "right" and gap or align == "center" and gap // 2 or 0
  return (" "):rep(before) .. text .. (" "):rep(gap - before)
end

return terminal
