-- stdlib/help.lua: help(x): what a name, a function, a class or an object is and how it is used;
-- apropos(word): the names that a word leads to. The texts are those of the reference.

local ml = require "moonlet"
local class = require "moonlet.class"
local commands = require "moonlet.repl.commands"
local fail = require("moonlet.options").fail
local index = require "moonlet.help.index"
local layout = require "moonlet.help.layout"
local texts_of_extensions = require "moonlet.ext.texts"

local introduction = [[
help("exp"), help(ml.exp) and help(ml.nn.Linear) explain a function or a class, help(net) and
help(x) an object, help "Tensor.grad" a field, and help "nn" lists a module; apropos("norm") finds
names by a word, and `moonlet doc NAME` shows the same outside of the prompt.
ml.tensor{1, 2, 3} makes a tensor, x.shape, x.dtype and x.device describe it, x:sum(1) and the
rest are methods, x[{1, {2, 3}}] indexes; dimensions and positions count from 1.

The prompt has these commands:
]] .. commands.text()

local LEFT_OUT = "this build has no texts of help: it was set up with -Dhelp=false"

local help = {}

local function unknown(wanted)
  local lines = { ("nothing is called '%s'"):format(wanted) }
  local close, mentioned = index.close(wanted), index.search(wanted)
  if #close > 0 then
    lines[1] = ("%s; did you mean %s?"):format(lines[1], table.concat(close, ", "))
  end
  if #mentioned > 0 then
    lines[#lines + 1] = "these speak of it:"
    lines[#lines + 1] = layout.list(mentioned)
  end
  return table.concat(lines, "\n")
end

local function text_of_name(wanted)
  if wanted:find "^%s*$" or wanted == "ml" or wanted == "moonlet" then return introduction end
  local entry, others = index.find(wanted)
  if not entry then return unknown(wanted) end
  return layout.entry(entry, others)
end

-- An object of a script's own class: what the class comes from.
local function text_of_own_class(cls)
  local parent = cls.super
  while parent and not index.name_of(parent) do parent = parent.super end
  local name = parent and index.name_of(parent)
  if not name then return ("class %s, with no text of its own"):format(class.name(cls)) end
  local entry = index.by_name[name]
  return ("class %s, a kind of %s\n\n%s"):format(class.name(cls), name, layout.entry(entry))
end

local function text_of_object(subject, meta)
  local cls = class.of(subject)
  if cls then
    local name = index.name_of(cls)
    return name and text_of_name(name) or text_of_own_class(cls)
  end
  -- Generators hide their metatable behind its name.
  local name = type(meta) == "string" and meta or type(meta) == "table" and rawget(meta, "__name")
  local entry = type(name) == "string" and index.by_name[name]
  if entry then return layout.entry(entry) end
  if type(name) ~= "string" then name = type(subject) end
  return ("a %s, of which there is no text"):format(name)
end

local function text_of_tensor(x)
  return ("a tensor of shape %s, %s, on %s\n\n%s"):format(x.shape, x.dtype, x.device,
    layout.entry(index.by_name.Tensor))
end

local function text_of_storage(s)
  return ("a storage of %d elements, %s, on %s\n\n%s"):format(#s, s.dtype, s.device,
    layout.entry(index.by_name.Storage))
end

-- A class that a C++ host has bound, or an object of it, says itself what it is.
local function text_of_host_class(subject)
  local meta = getmetatable(subject)
  if type(subject) == "userdata" then meta = type(meta) == "table" and getmetatable(meta) end
  local text = type(meta) == "table" and rawget(meta, "__help")
  return text and text(subject)
end

--- The text that `help` prints.
--- > print(ml.help.text("inf"))
---   inf (constant)
---
---     Positive infinity.
---@param subject any a name ("nn.Linear", "x:backward"), a function, a class, an object or a module
---@return string
function help.text(subject)
  if #index.entries == 0 then return LEFT_OUT end
  if subject == nil or subject == ml then return introduction end
  if type(subject) == "string" then return text_of_name(subject) end
  if ml.is_tensor(subject) then return text_of_tensor(subject) end
  if ml.is_storage(subject) then return text_of_storage(subject) end
  local name = index.name_of(subject)
  if name then return text_of_name(name) end
  local command = commands.find(subject)
  if command then return ("%s%s\n\n  %s"):format(command.name, command.arguments, command.text) end
  if type(subject) == "function" then
    return texts_of_extensions.of(subject) or "a function of which there is no text"
  end
  if class.is_class(subject) then return text_of_own_class(subject) end
  local host = text_of_host_class(subject)
  if host then return host end
  return text_of_object(subject, getmetatable(subject))
end

--- The names that a word occurs in, or in whose texts it does, each with its first sentence.
--- > ml.help.search("softmax"):match("log_softmax")
---   log_softmax
---@param word string the word
---@return string
function help.search(word)
  if type(word) ~= "string" then
    fail("apropos: a word is expected, got %s", type(word))
  end
  if #index.entries == 0 then return LEFT_OUT end
  local found = index.search(word)
  if #found == 0 then return ("nothing speaks of '%s'"):format(word) end
  return layout.list(found)
end

--- Prints what is known about a name, a function, a class or an object; `help(x)` at the prompt.
--- > ml.help.show("inf")  -- varies
---@param subject any a name ("nn.Linear", "x:backward"), a function, a class, an object or a module
function help.show(subject) print(help.text(subject)) end

--- Prints the names that a word leads to; `apropos(word)` at the prompt.
--- > ml.help.apropos("crossentropy")  -- varies
---@param word string the word
function help.apropos(word) print(help.search(word)) end

--- The command `moonlet doc`: prints the text of a name, or with `--search` the names that a word
--- leads to. Returns whether there is such a name.
--- > ml.help.command { "inf" }
---   true
---@param arguments string[] the command's arguments
---@return boolean found
function help.command(arguments)
  local name, wants_search = arguments[1], arguments[1] == "--search"
  if #arguments > (wants_search and 2 or 1) or wants_search and not arguments[2] then
    io.stderr:write("usage: moonlet doc [NAME | --search WORD]\n")
    return false
  end
  if wants_search then
    help.apropos(arguments[2])
    return #index.search(arguments[2]) > 0
  end
  print((name or #index.entries == 0) and help.text(name) or layout.overview(introduction))
  return not name or index.find(name) ~= nil
end

return setmetatable(help, { __call = function(_, subject) help.show(subject) end })
