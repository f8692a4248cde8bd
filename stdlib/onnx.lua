-- stdlib/onnx.lua: ml.onnx: export of models to ONNX files and import of such files.

local codec = require "moonlet.onnx_codec"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local system = require "moonlet.system"
local fail = options.fail

local onnx = {}

onnx.export = require "moonlet.onnx.export"
onnx.load = require("moonlet.onnx.load").load

local read_check = signature "onnx.check_model(string path)"

--- Checks a file with ONNX's own checker: an error says what is wrong with it.
--- > path = os.tmpname()  -- needs onnx
--- > ml.onnx.export(ml.nn.Linear(4, 3), ml.ones(2, 4), path)
--- > ml.onnx.check_model(path)
---@param path string the file
function onnx.check_model(...)
  local path = read_check(...)
  local bytes, problem = system.read_file(path)
  if not bytes then fail("onnx.check_model: '%s': %s", path, problem) end
  local ok, message = pcall(codec.check, bytes)
  if ok then return end
  message = tostring(message):gsub("^[^\n]-:%d+: ", "")
  if message:find "^No Op registered for" then
    message = message:match "^[^\n]*" .. "; the ONNX that is installed may be older than that"
  end
  fail("onnx.check_model: '%s': %s", path, message)
end

return options.namespace("onnx", onnx)
