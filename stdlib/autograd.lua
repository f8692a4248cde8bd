-- stdlib/autograd.lua: ml.autograd: checks of derivatives, and derivatives of functions. Each part
-- is loaded when one of its names is first used.

local options = require "moonlet.options"

return options.namespace("autograd", {}, options.late {
  ["autograd.checks"] = { "gradcheck", "gradgradcheck" },
  ["autograd.functional"] = { "functional" },
  ["autograd.anomaly"] = { "detect_anomaly", "set_detect_anomaly", "is_anomaly_enabled",
    "is_anomaly_check_nan_enabled" },
  ["autograd.profiler"] = { "profiler" },
})
