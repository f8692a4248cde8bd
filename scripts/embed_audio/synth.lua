-- scripts/embed_audio/synth.lua: what the host runs for each block of samples: a small network that
-- shapes a tone, and the notes of a score, which are the tables that a collector has to deal with.

local ml = require "moonlet"

ml.manual_seed(1)
local net = ml.nn.Sequential(ml.nn.Linear(128, 64), ml.nn.Tanh(), ml.nn.Linear(64, 64),
  ml.nn.Tanh(), ml.nn.Linear(64, 128)):eval()

-- As many notes as a score has; each is a table of three fields. They are in bars, not in one large
-- table, which the collector would look at whole.
local NOTES_IN_BAR = 64
local synth, score, notes = {}, {}, 0
function synth.set_score(count)
  notes = count
  for i = 0, count - 1 do
    local bar = i // NOTES_IN_BAR + 1
    score[bar] = score[bar] or {}
    score[bar][i % NOTES_IN_BAR + 1] = { pitch = 40 + i % 48, velocity = i % 128, at = i / 4 }
  end
end

-- Fills `out` from `block`, both tensors of 128 samples in the host's memory. Notes of the score
-- are replaced as time goes on, so that there is garbage.
function synth.process(block, out, time)
  if notes > 0 then
    local i = time % notes
    local bar = score[i // NOTES_IN_BAR + 1]
    local note = bar[i % NOTES_IN_BAR + 1]
    bar[i % NOTES_IN_BAR + 1] = { pitch = note.pitch, velocity = note.velocity, at = note.at + 1 }
  end
  ml.no_grad(function() out:copy_(net(block)) end)
end

return synth
