-- stdlib/help_modes.lua: the texts of help() for what stands between a script and the ops.

local texts = {
  autocast = [[
ml.autocast({device="cpu", dtype=nil, enabled=true}, f, ...) -> results of f
local _ <close> = ml.autocast {device="cpu", dtype=nil, enabled=true}

  Runs f, or the rest of the block, with each op in the floating dtype that suits it: products and
  convolutions in `dtype` (bfloat16 on the CPU, float16 on CUDA devices), losses in float32, on
  CUDA also sums, exponentials and norms, and what joins tensors in the widest of theirs. float64
  stays, and so do in-place and out= forms. Gradients come back in the dtype of their leaf.
  enabled=false turns it off inside. ml.ops.info(name).autocast is the policy of an op per device.
  > ml.autocast({ dtype = ml.bfloat16 }, function() return ml.mm(ml.eye(3), ml.eye(3)) end)]],
  override = [[
ml.override(function(op, arguments, call) ... end, f, ...) -> results of f
local _ <close> = ml.override(handler)

  Calls the handler in the place of each op that f, or the rest of the block, calls, also inside
  other ops and in backward. `op` describes it as ml.ops.info does. `arguments` are those of the
  function, by position or name, dimensions from 1, what was left out filled in; they may be
  changed. `call(arguments)`, or `call(a, b, ...)`, goes on and returns the op's results; what the
  handler returns takes their place. Ops that the handler calls do not come to it.
  > ml.override(function(op, arguments, call) print(op.name) return call(arguments) end,
      function() return ml.ones(2) + 1 end)]],
  ops = [[
ml.ops.list() -> names of all ops, in all their forms
ml.ops.info(name) -> a table

  What is known of an op: name, row, form ("plain", "in_place", "out"), schema, kind, family,
  dtypes, arguments and results (name, type, default, written), writes (positions of the
  arguments it changes), is_view, random, differentiable, autocast.
  > ml.ops.info("add_").writes]],
  profile = [[
ml.profile({sync=false}, f, ...) -> profile
local p <close> = ml.profile()

  Counts the ops that f calls, or those until p:stop() or the end of the block, with their time and
  the bytes they allocate; the ops inside an op and those of backward too.
  p.events is a list of {name, where, count, total_time, self_time, bytes, self_bytes}, times in
  seconds; `self` leaves out the ops inside. p:table{sort="self_time", by="op", rows=nil} is text.
  `by` is "op" or "line". sync=true waits for CUDA devices around each op.
  > print(ml.profile(function() return ml.randn(9, 9):softmax(1) end):table())]],
}
texts.is_autocast_enabled = texts.autocast

return texts
