-- stdlib/torch7/optim/confusion.lua: optim.ConfusionMatrix, which counts what a classifier took for
-- what.

local torch = require "moonlet.torch7"

local ConfusionMatrix = {}
ConfusionMatrix.__index = ConfusionMatrix

--- `classes`: how many there are, or a list of their names.
local function new(_, classes, names)
  if type(classes) == "table" then names, classes = classes, #classes end
  if not classes then error("ConfusionMatrix: a number of classes or their names is expected",
    2) end
  local self = setmetatable({ nclasses = classes }, ConfusionMatrix)
  self.classes = names or {}
  for i = 1, classes do self.classes[i] = self.classes[i] or i end
  self.mat = torch.LongTensor(classes, classes)
  self.valids, self.unionvalids = torch.FloatTensor(classes), torch.FloatTensor(classes)
  return self:zero()
end

function ConfusionMatrix:zero()
  self.mat:zero()
  self.valids:zero()
  self.unionvalids:zero()
  self.totalValid, self.averageValid, self.averageUnionValid = 0, 0, 0
  return self
end

-- A class: a number, or the position of the largest of scores.
local function class_of(value)
  if type(value) == "number" then return value end
  if value:nElement() == 1 then return value:view(-1)[1] end
  local _, at = value:view(-1):max(1)
  return at[1]
end

--- Counts one prediction, a class or scores, for a target.
function ConfusionMatrix:add(prediction, target)
  local row, column = class_of(target), class_of(prediction)
  if column ~= column then return end
  self.mat[row][column] = self.mat[row][column] + 1
end

local function all_classes(values)
  if values:dim() == 2 and values:size(2) > 1 then
    local _, at = values:max(2)
    return at:view(-1):totable()
  end
  return values:contiguous():view(-1):long():totable()
end

--- Counts a batch: classes, or scores as rows.
function ConfusionMatrix:batchAdd(predictions, targets)
  local columns, rows = all_classes(predictions), all_classes(targets)
  if #columns ~= #rows then
    error(("batchAdd: as many targets as predictions are expected, got %d and %d"):format(#rows,
      #columns), 2)
  end
  for i, row in ipairs(rows) do self.mat[row][columns[i]] = self.mat[row][columns[i]] + 1 end
end

--- Computes `valids`, the share of each class that was found, `totalValid` and their means.
function ConfusionMatrix:updateValids()
  local right, total, found, union = 0, 0, {}, {}
  for i = 1, self.nclasses do
    local hits, row, column = self.mat[i][i], self.mat[i]:sum(), self.mat:select(2, i):sum()
    right, total = right + hits, total + row
    self.valids[i] = row > 0 and hits / row or 0 / 0
    self.unionvalids[i] = row + column > 0 and hits / (row + column - hits) or 0 / 0
    if row > 0 then found[#found + 1] = hits / row end
    if row + column > 0 then union[#union + 1] = hits / (row + column - hits) end
  end
  local function mean(list)
    local sum = 0
    for _, value in ipairs(list) do sum = sum + value end
    return #list > 0 and sum / #list or 0
  end
  self.totalValid = total > 0 and right / total or 0
  self.averageValid, self.averageUnionValid = mean(found), mean(union)
  return self
end

function ConfusionMatrix:__tostring()
  self:updateValids()
  local lines = { "ConfusionMatrix:" }
  for i = 1, self.nclasses do
    local cells = {}
    for j = 1, self.nclasses do cells[j] = ("%8d"):format(self.mat[i][j]) end
    lines[#lines + 1] = ("%s[%s]   %.3f%% \t[class: %s]"):format(i == 1 and "[" or " ",
      table.concat(cells), self.valids[i] * 100, tostring(self.classes[i]))
      .. (i == self.nclasses and "]" or "")
  end
  lines[#lines + 1] = (" + average row correct: %.6g%% "):format(self.averageValid * 100)
  lines[#lines + 1] = (" + average rowUcol correct (VOC measure): %.6g%% "):format(
    self.averageUnionValid * 100)
  lines[#lines + 1] = (" + global correct: %.6g%%"):format(self.totalValid * 100)
  return table.concat(lines, "\n")
end

return setmetatable({}, { __call = new, __index = ConfusionMatrix })
