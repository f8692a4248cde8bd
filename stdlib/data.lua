-- stdlib/data.lua: ml.data: data sets, samplers, loaders, and readers of CSV and IDX files.

local data = {}

for _, part in ipairs { "dataset", "sampler", "loader", "files", "table" } do
  for name, value in pairs(require("moonlet.data." .. part)) do data[name] = value end
end

return require("moonlet.options").namespace("data", data)
