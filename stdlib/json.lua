-- stdlib/json.lua: JSON for plain values: strict in both directions, with a limit on depth.

local json = {}

local kMostDepth = 200
json.null = setmetatable({}, { __tostring = function() return "null" end })

local kEscapes = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function quote(text)
  return '"' .. text:gsub('[%c"\\]', function(c)
    return kEscapes[c] or ("\\u%04x"):format(c:byte())
  end) .. '"'
end

local function encode_number(value)
  if math.type(value) == "integer" then return ("%d"):format(value) end
  if value ~= value or value == math.huge or value == -math.huge then
    error("json: JSON has no " .. tostring(value), 0)
  end
  local text = ("%.17g"):format(value)
  -- A float stays a float when it is read again.
  return text:find("[%.eE]") and text or text .. ".0"
end

local encode

local function encode_table(value, depth)
  if depth > kMostDepth then error("json: the value nests too deeply or contains itself", 0) end
  local parts = {}
  local count = #value
  if count > 0 then
    for i = 1, count do parts[i] = encode(value[i], depth + 1) end
    for key in pairs(value) do
      if math.type(key) ~= "integer" or key < 1 or key > count then
        error("json: a table is either an array or has string keys, not both", 0)
      end
    end
    return "[" .. table.concat(parts, ",") .. "]"
  end
  local keys = {}
  for key in pairs(value) do
    if type(key) ~= "string" then
      error(("json: a key of an object must be a string, got %s"):format(tostring(key)), 0)
    end
    keys[#keys + 1] = key
  end
  table.sort(keys)
  for i, key in ipairs(keys) do parts[i] = quote(key) .. ":" .. encode(value[key], depth + 1) end
  return "{" .. table.concat(parts, ",") .. "}"
end

function encode(value, depth)
  local kind = type(value)
  if value == json.null then return "null" end
  if kind == "string" then return quote(value) end
  if kind == "number" then return encode_number(value) end
  if kind == "boolean" then return tostring(value) end
  if kind == "table" and not getmetatable(value) then return encode_table(value, depth) end
  error(("json: a %s has no JSON form"):format(kind), 0)
end

--- The JSON text of a plain value. An empty table is an object.
---@param value any
---@return string
function json.encode(value)
  return encode(value, 1)
end

local Reader = {}
Reader.__index = Reader

function Reader:fail(message)
  error(("json: byte %d: %s"):format(self.at, message), 0)
end

function Reader:space()
  self.at = self.text:find("[^ \t\r\n]", self.at) or #self.text + 1
end

function Reader:accept(token)
  self:space()
  if self.text:sub(self.at, self.at + #token - 1) ~= token then return false end
  self.at = self.at + #token
  return true
end

local kUnescapes = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\",
  ["/"] = "/" }

function Reader:hex()
  local digits = self.text:match("^%x%x%x%x", self.at)
  if not digits then self:fail("a bad \\u escape") end
  self.at = self.at + 4
  return tonumber(digits, 16)
end

function Reader:escape()
  local c = self.text:sub(self.at, self.at)
  self.at = self.at + 1
  if kUnescapes[c] then return kUnescapes[c] end
  if c ~= "u" then self:fail("an unknown escape") end
  local code = self:hex()
  if code >= 0xD800 and code <= 0xDBFF and self.text:sub(self.at, self.at + 1) == "\\u" then
    self.at = self.at + 2
    local low = self:hex()
    if low < 0xDC00 or low > 0xDFFF then self:fail("half of a surrogate pair") end
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
  elseif code >= 0xD800 and code <= 0xDFFF then
    self:fail("half of a surrogate pair")
  end
  return utf8.char(code)
end

function Reader:string()
  local parts = {}
  while true do
    local plain = self.text:match('^[^%c"\\]*', self.at)
    parts[#parts + 1] = plain
    self.at = self.at + #plain
    local c = self.text:sub(self.at, self.at)
    self.at = self.at + 1
    if c == '"' then return table.concat(parts) end
    if c ~= "\\" then self:fail("a string is not closed, or has a control character") end
    parts[#parts + 1] = self:escape()
  end
end

function Reader:number()
  local text = self.text:match("^%-?%d+%.?%d*[eE]?[+-]?%d*", self.at)
  local strict = text and (text:find("^%-?[1-9]%d*") or text:find("^%-?0%f[^%d]"))
    and not text:find("%.$") and not text:find("%.[eE]") and tonumber(text)
  if not strict then self:fail("a value is wanted") end
  self.at = self.at + #text
  return strict
end

function Reader:array(depth)
  local out = {}
  if self:accept("]") then return out end
  repeat out[#out + 1] = self:value(depth + 1) until not self:accept(",")
  if not self:accept("]") then self:fail("',' or ']' is wanted") end
  return out
end

function Reader:object(depth)
  local out = {}
  if self:accept("}") then return out end
  repeat
    if not self:accept('"') then self:fail("a key is wanted") end
    local key = self:string()
    if out[key] ~= nil then self:fail("key '" .. key .. "' comes twice") end
    if not self:accept(":") then self:fail("':' is wanted") end
    out[key] = self:value(depth + 1)
  until not self:accept(",")
  if not self:accept("}") then self:fail("',' or '}' is wanted") end
  return out
end

function Reader:value(depth)
  if depth > kMostDepth then self:fail("the value nests too deeply") end
  if self:accept('"') then return self:string() end
  if self:accept("{") then return self:object(depth) end
  if self:accept("[") then return self:array(depth) end
  if self:accept("true") then return true end
  if self:accept("false") then return false end
  if self:accept("null") then return json.null end
  return self:number()
end

--- The value of a JSON text; null is `json.null`. Errors name the byte.
---@param text string
---@return any
function json.decode(text)
  if type(text) ~= "string" then error("json: a string is wanted, got " .. type(text), 2) end
  local reader = setmetatable({ text = text, at = 1 }, Reader)
  local value = reader:value(1)
  reader:space()
  if reader.at <= #text then reader:fail("text follows the value") end
  return value
end

return json
