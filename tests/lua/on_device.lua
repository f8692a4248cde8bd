-- tests/lua/on_device.lua: a test that skips without a CUDA device, and must leave no capture open.

local ml = require "moonlet"
local harness = require "harness"

return function(name, body)
  harness.test(name, function()
    if not ml.cuda.is_available() then harness.skip "no CUDA device" end
    body()
    harness.expect.equal(ml.cuda.is_current_stream_capturing(), false)
  end)
end
