-- stdlib/repl/commands.lua: the commands of the prompt, one entry each: globals there, which the
-- prompt calls as any function. Tab and `help()` take them from here.

local commands = {}

-- The names of the reference that begin so, as far as the next dot, like the files of one folder.
local function names_of_reference(prefix)
  local names, _, dots = {}, prefix:gsub("%.", "")
  for _, entry in ipairs(require("moonlet.help.index").entries) do
    local name = entry.name
    if name:sub(1, #prefix) == prefix and name:find "^[%w_.]+$"
        and select(2, name:gsub("%.", "")) == dots then
      names[#names + 1] = name
    end
  end
  table.sort(names)
  return names
end

local function leave() os.exit(true, true) end

--- Each has `name`, `arguments` as they are shown, `text` (what it does, in a line), `run`,
--- `complete(prefix)`, which gives what may stand in a string that is its argument, and `alone`,
--- whether the name by itself is a call without arguments.
commands.list = {
  { name = "help", arguments = "(subject)",
    text = "what a name, a function, a class or an object is and how it is used",
    run = function(subject) require("moonlet.help").show(subject) end,
    complete = names_of_reference, alone = true },
  { name = "apropos", arguments = "(word)", text = "the names that a word leads to",
    run = function(word) require("moonlet.help").apropos(word) end,
    complete = function() return {} end },
  { name = "quit", arguments = "()", text = "leaves the prompt, as exit and Ctrl-D do",
    run = function() leave() end, alone = true },
  { name = "exit", arguments = "()", text = "leaves the prompt", run = function() leave() end,
    alone = true },
}

--- The command of a name or of a function, or nil.
---@param subject any
---@return table? command
function commands.find(subject)
  for _, command in ipairs(commands.list) do
    if command.name == subject or command.run == subject then return command end
  end
end

--- A line for each command: how it is called and what it does.
---@return string
function commands.text()
  local lines, widest = {}, 0
  for i, command in ipairs(commands.list) do
    lines[i] = command.name .. command.arguments
    widest = math.max(widest, #lines[i])
  end
  for i, command in ipairs(commands.list) do
    lines[i] = ("  %-" .. widest .. "s  %s"):format(lines[i], command.text)
  end
  return table.concat(lines, "\n")
end

--- Makes the commands fields of a table, the globals of the prompt, but those that a script which
--- ran before it defined.
---@param globals table
function commands.install(globals)
  for _, command in ipairs(commands.list) do
    if rawget(globals, command.name) == nil then rawset(globals, command.name, command.run) end
  end
end

--- Runs a command of which a line is the name and nothing else. Returns whether there was one.
---@param ... any what the line gave
---@return boolean
function commands.run_alone(...)
  local command = select("#", ...) == 1 and type((...)) == "function" and commands.find((...))
  if not command or not command.alone then return false end
  command.run()
  return true
end

return commands
