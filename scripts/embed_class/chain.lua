-- scripts/embed_class/chain.lua: what the host program runs: effects, of the host's classes and one
-- of the script's own, and a sound. `Effect`, `Gain` and `tone` are the host's.
-- luacheck: read globals Effect Gain tone

local Clip = Effect:extend "Clip"

function Clip:init(limit)
  Effect.init(self, "clip")
  self.limit, self.clipped = limit, 0
end

-- The host calls it for each sample.
function Clip:process(x)
  if math.abs(x) <= self.limit then return x end
  self.clipped = self.clipped + 1
  return x > 0 and self.limit or -self.limit
end

local clip, half = Clip(1), Gain(0.5)
half.mix = 0.5

return {
  chain = { Gain(), clip, half },
  sound = tone(440, 1000, 48000),
  count = function() return clip.name, clip.clipped end,
}
