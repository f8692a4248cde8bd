-- scripts/embed_audio/synth.lua: what the host runs for each block of samples: a small network that
-- shapes a tone, and the notes of a score, which are the tables that a collector has to deal with.

local ml = require "moonlet"

ml.manual_seed(1)
local net = ml.nn.Sequential(ml.nn.Linear(128, 64), ml.nn.Tanh(), ml.nn.Linear(64, 64),
  ml.nn.Tanh(), ml.nn.Linear(64, 128)):eval()

-- As many notes as a score has; each is a table of three fields.
local synth, score = {}, {}
function synth.set_score(count)
  for i = 1, count do score[i] = { pitch = 40 + i % 48, velocity = i % 128, at = i / 4 } end
end

-- Fills `out` from `block`, both tensors of 128 samples in the host's memory. Notes of the score
-- are replaced as time goes on, so that there is garbage.
function synth.process(block, out, time)
  local at = time % math.max(#score, 1) + 1
  local note = score[at]
  if note then score[at] = { pitch = note.pitch, velocity = note.velocity, at = note.at + 1 } end
  ml.no_grad(function() out:copy_(net(block)) end)
end

return synth
