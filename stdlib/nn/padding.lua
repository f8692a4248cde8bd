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

--- Pads sequences with a constant. Negative padding cuts elements off.
--- > ml.nn.ConstantPad1d(1, 7)(ml.tensor { { 1, 2, 3 } })
---   {{7, 1, 2, 3, 7}}
---   Tensor (1, 5) int64
---@param padding how much to add at every side, or { left, right }
---@param value what the border is filled with
---@shape input (*, l) -> (*, l + left + right)
layers.ConstantPad1d = define("ConstantPad", 1, "constant", ", number value")
--- Pads images with a constant. Negative padding cuts elements off.
--- > ml.nn.ConstantPad2d(1, 7)(ml.tensor { { { 1, 2 }, { 3, 4 } } })
---   {{{7, 7, 7, 7},
---     {7, 1, 2, 7},
---     {7, 3, 4, 7},
---     {7, 7, 7, 7}}}
---   Tensor (1, 4, 4) int64
---@param padding how much to add at every side, or { left, right, top, bottom }
---@param value what the border is filled with
---@shape input (*, h, w) -> (*, h + top + bottom, w + left + right)
layers.ConstantPad2d = define("ConstantPad", 2, "constant", ", number value")
--- Pads volumes with a constant. Negative padding cuts elements off.
--- > ml.nn.ConstantPad3d(1, 7)(ml.ones(1, 2, 2, 2)).shape
---   (1, 4, 4, 4)
---@param padding how much to add at every side, or { left, right, top, bottom, front, back }
---@param value what the border is filled with
---@shape input (*, d, h, w) -> (*, d + front + back, h + top + bottom, w + left + right)
layers.ConstantPad3d = define("ConstantPad", 3, "constant", ", number value")
--- Pads sequences with zeros. Negative padding cuts elements off.
--- > ml.nn.ZeroPad1d(1)(ml.tensor { { 1, 2, 3 } })
---   {{0, 1, 2, 3, 0}}
---   Tensor (1, 5) int64
---@param padding how much to add at every side, or { left, right }
---@shape input (*, l) -> (*, l + left + right)
layers.ZeroPad1d = define("ZeroPad", 1, "constant")
--- Pads images with zeros. Negative padding cuts elements off.
--- > ml.nn.ZeroPad2d(1)(ml.tensor { { { 1, 2 }, { 3, 4 } } })
---   {{{0, 0, 0, 0},
---     {0, 1, 2, 0},
---     {0, 3, 4, 0},
---     {0, 0, 0, 0}}}
---   Tensor (1, 4, 4) int64
---@param padding how much to add at every side, or { left, right, top, bottom }
---@shape input (*, h, w) -> (*, h + top + bottom, w + left + right)
layers.ZeroPad2d = define("ZeroPad", 2, "constant")
--- Pads volumes with zeros. Negative padding cuts elements off.
--- > ml.nn.ZeroPad3d(1)(ml.ones(1, 2, 2, 2)).shape
---   (1, 4, 4, 4)
---@param padding how much to add at every side, or { left, right, top, bottom, front, back }
---@shape input (*, d, h, w) -> (*, d + front + back, h + top + bottom, w + left + right)
layers.ZeroPad3d = define("ZeroPad", 3, "constant")
--- Pads sequences by reflection at the border, whose own elements are not repeated. The padding
--- must be less than the size that it adds to. Negative padding cuts elements off.
--- > ml.nn.ReflectionPad1d(1)(ml.tensor { { 1, 2, 3 } })
---   {{2, 1, 2, 3, 2}}
---   Tensor (1, 5) int64
---@param padding how much to add at every side, or { left, right }
---@shape input (*, c, l) -> (*, c, l + left + right)
layers.ReflectionPad1d = define("ReflectionPad", 1, "reflect")
--- Pads images by reflection at the border, whose own elements are not repeated. The padding must
--- be less than the size that it adds to. Negative padding cuts elements off.
--- > ml.nn.ReflectionPad2d(1)(ml.tensor { { { 1, 2 }, { 3, 4 } } })
---   {{{4, 3, 4, 3},
---     {2, 1, 2, 1},
---     {4, 3, 4, 3},
---     {2, 1, 2, 1}}}
---   Tensor (1, 4, 4) int64
---@param padding how much to add at every side, or { left, right, top, bottom }
---@shape input (*, c, h, w) -> (*, c, h + top + bottom, w + left + right)
layers.ReflectionPad2d = define("ReflectionPad", 2, "reflect")
--- Pads volumes by reflection at the border, whose own elements are not repeated. The padding must
--- be less than the size that it adds to. Negative padding cuts elements off.
--- > ml.nn.ReflectionPad3d(1)(ml.ones(1, 2, 2, 2)).shape
---   (1, 4, 4, 4)
---@param padding how much to add at every side, or { left, right, top, bottom, front, back }
---@shape input (*, c, d, h, w) -> (*, c, d + front + back, h + top + bottom, w + left + right)
layers.ReflectionPad3d = define("ReflectionPad", 3, "reflect")
--- Pads sequences by replication of the border's elements. Negative padding cuts elements off.
--- > ml.nn.ReplicationPad1d(1)(ml.tensor { { 1, 2, 3 } })
---   {{1, 1, 2, 3, 3}}
---   Tensor (1, 5) int64
---@param padding how much to add at every side, or { left, right }
---@shape input (*, c, l) -> (*, c, l + left + right)
layers.ReplicationPad1d = define("ReplicationPad", 1, "replicate")
--- Pads images by replication of the border's elements. Negative padding cuts elements off.
--- > ml.nn.ReplicationPad2d(1)(ml.tensor { { { 1, 2 }, { 3, 4 } } })
---   {{{1, 1, 2, 2},
---     {1, 1, 2, 2},
---     {3, 3, 4, 4},
---     {3, 3, 4, 4}}}
---   Tensor (1, 4, 4) int64
---@param padding how much to add at every side, or { left, right, top, bottom }
---@shape input (*, c, h, w) -> (*, c, h + top + bottom, w + left + right)
layers.ReplicationPad2d = define("ReplicationPad", 2, "replicate")
--- Pads volumes by replication of the border's elements. Negative padding cuts elements off.
--- > ml.nn.ReplicationPad3d(1)(ml.ones(1, 2, 2, 2)).shape
---   (1, 4, 4, 4)
---@param padding how much to add at every side, or { left, right, top, bottom, front, back }
---@shape input (*, c, d, h, w) -> (*, c, d + front + back, h + top + bottom, w + left + right)
layers.ReplicationPad3d = define("ReplicationPad", 3, "replicate")
--- Pads sequences circularly: the border continues with the elements of the opposite side. The
--- padding must not exceed the size that it adds to. Negative padding cuts elements off.
--- > ml.nn.CircularPad1d(1)(ml.tensor { { 1, 2, 3 } })
---   {{3, 1, 2, 3, 1}}
---   Tensor (1, 5) int64
---@param padding how much to add at every side, or { left, right }
---@shape input (*, c, l) -> (*, c, l + left + right)
layers.CircularPad1d = define("CircularPad", 1, "circular")
--- Pads images circularly: the border continues with the elements of the opposite side. The padding
--- must not exceed the size that it adds to. Negative padding cuts elements off.
--- > ml.nn.CircularPad2d(1)(ml.tensor { { { 1, 2 }, { 3, 4 } } })
---   {{{4, 3, 4, 3},
---     {2, 1, 2, 1},
---     {4, 3, 4, 3},
---     {2, 1, 2, 1}}}
---   Tensor (1, 4, 4) int64
---@param padding how much to add at every side, or { left, right, top, bottom }
---@shape input (*, c, h, w) -> (*, c, h + top + bottom, w + left + right)
layers.CircularPad2d = define("CircularPad", 2, "circular")
--- Pads volumes circularly: the border continues with the elements of the opposite side. The
--- padding must not exceed the size that it adds to. Negative padding cuts elements off.
--- > ml.nn.CircularPad3d(1)(ml.ones(1, 2, 2, 2)).shape
---   (1, 4, 4, 4)
---@param padding how much to add at every side, or { left, right, top, bottom, front, back }
---@shape input (*, c, d, h, w) -> (*, c, d + front + back, h + top + bottom, w + left + right)
layers.CircularPad3d = define("CircularPad", 3, "circular")

return layers
