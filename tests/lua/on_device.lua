-- tests/lua/on_device.lua: a test that skips without a CUDA device, and must leave no capture open.
-- `wants` may say cudnn = true, without which it skips then, and a `seed`.

local ml = require "moonlet"
local harness = require "harness"

return function(name, body, wants)
  harness.test(name, function()
    if not ml.cuda.is_available() then harness.skip "no CUDA device" end
    if wants and wants.cudnn and not ml.backends.cudnn.is_available() then harness.skip "no cuDNN" end
    if wants and wants.seed then ml.manual_seed(wants.seed) end
    body()
    harness.expect.equal(ml.cuda.is_current_stream_capturing(), false)
  end)
end
