-- stdlib/nn/padding.lua: layers that put a border around sequences, images and volumes, with a
-- batch or without.

local layer = require "moonlet.nn.layer"
local ml = require "moonlet"
local options = require "moonlet.options"

local layers = {}

-- The class of borders of that kind around `dims` dimensions: `padding` is one number or a pair
-- (before, after) for the last dimension, the one before it, and so on; negative ones cut.
local function define(kind, dims, mode, parameters)
  local name = ("%s%dd"):format(kind, dims)
  local cls, read
  cls, read = layer.define(name, ("int[%d] padding%s"):format(2 * dims, parameters or ""),
    function(self, o) self.padding, self.value = o.padding, o.value end)
  function cls:forward(x)
    layer.check_input(self, x)
    if mode ~= "constant" and x.ndim ~= dims + 1 and x.ndim ~= dims + 2 then
      options.fail("%s: expected %d or %d dimensions, got shape %s", self:describe(), dims + 1,
        dims + 2, tostring(x.shape))
    end
    return layer.run(self, ml.pad, x, self.padding, mode, self.value or 0)
  end
  function cls:extra_repr() return layer.repr(self, read) end
  return cls
end

--- A border of `value` at both ends of (..., l): `padding` elements, or { left, right }.
layers.ConstantPad1d = define("ConstantPad", 1, "constant", ", number value")
--- A border of `value` around (..., h, w): `padding` elements, or { left, right, top, bottom }.
layers.ConstantPad2d = define("ConstantPad", 2, "constant", ", number value")
--- A border of `value` around (..., d, h, w): `padding` elements, or { left, right, top, bottom,
--- front, back }.
layers.ConstantPad3d = define("ConstantPad", 3, "constant", ", number value")
--- Zeros at both ends of (..., l): `padding` elements, or { left, right }.
layers.ZeroPad1d = define("ZeroPad", 1, "constant")
--- Zeros around (..., h, w): `padding` elements, or { left, right, top, bottom }.
layers.ZeroPad2d = define("ZeroPad", 2, "constant")
--- Zeros around (..., d, h, w): `padding` elements, or { left, right, top, bottom, front, back }.
layers.ZeroPad3d = define("ZeroPad", 3, "constant")
--- A border that mirrors (..., c, l) at its ends, which do not come twice: `padding` elements, or
--- { left, right }.
layers.ReflectionPad1d = define("ReflectionPad", 1, "reflect")
--- A border that mirrors (..., c, h, w) at its edges: `padding` elements, or { left, right, top,
--- bottom }.
layers.ReflectionPad2d = define("ReflectionPad", 2, "reflect")
--- A border that mirrors (..., c, d, h, w) at its faces: `padding` elements, or { left, right, top,
--- bottom, front, back }.
layers.ReflectionPad3d = define("ReflectionPad", 3, "reflect")
--- A border that repeats the first and the last element of (..., c, l): `padding` elements, or
--- { left, right }.
layers.ReplicationPad1d = define("ReplicationPad", 1, "replicate")
--- A border that repeats the edges of (..., c, h, w): `padding` elements, or { left, right, top,
--- bottom }.
layers.ReplicationPad2d = define("ReplicationPad", 2, "replicate")
--- A border that repeats the faces of (..., c, d, h, w): `padding` elements, or { left, right, top,
--- bottom, front, back }.
layers.ReplicationPad3d = define("ReplicationPad", 3, "replicate")
--- A border that goes on with (..., c, l) from its other end: `padding` elements, or { left,
--- right }.
layers.CircularPad1d = define("CircularPad", 1, "circular")
--- A border that goes on with (..., c, h, w) from its other edges: `padding` elements, or { left,
--- right, top, bottom }.
layers.CircularPad2d = define("CircularPad", 2, "circular")
--- A border that goes on with (..., c, d, h, w) from its other faces: `padding` elements, or
--- { left, right, top, bottom, front, back }.
layers.CircularPad3d = define("CircularPad", 3, "circular")

return layers
