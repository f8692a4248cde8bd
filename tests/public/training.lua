-- tests/public/training.lua: reports of optimisers and schedules; run.lua tells what a row holds.

return {
  { "pytorch#72874", 0.1, "the first schedule rules at the start",
    [[local o, S = sgd(0.1), optim.lr_scheduler
      S.SequentialLR(o, { S.ConstantLR(o, { factor = 1 }), S.ConstantLR(o, { factor = 0.1 }) }, { 10 })
      return o.param_groups[1].lr]] },
  { "pytorch#185872", { 0.0333333, 0.0466667, 0.06, 0.0733333, 0.0866667, 0.1, 0.09, 0.081 },
    "a warm-up of five steps, then a decay from where it ended",
    [[local o, S = sgd(0.1), optim.lr_scheduler
      local warm_up, decay = S.LinearLR(o, { total_iters = 5 }), S.ExponentialLR(o, 0.9)
      return rates(o, S.SequentialLR(o, { warm_up, decay }, { 5 }), 8)]] },
  { "pytorch#67586", 0.1, "a milestone of 0: the second schedule is on from the start",
    [[local o, S = sgd(0.1), optim.lr_scheduler
      S.SequentialLR(o, { S.ConstantLR(o, { factor = 0.5, total_iters = 9 }), S.ExponentialLR(o, 0.9) }, { 0 })
      return o.param_groups[1].lr]] },
  { "pytorch#52911", 0.9, "the state brings the factor along",
    [[local S = optim.lr_scheduler
      local o = optim.SGD({ ml.zeros(1):requires_grad_() }, { lr = 0.1, momentum = 0.9 })
      local function cyclic(gamma)
        return S.CyclicLR(o, 0.01, 0.1, { step_size_up = 1, mode = "exp_range", gamma = gamma })
      end
      local one, other = cyclic(0.9), cyclic(1)
      other:load_state_dict(one:state_dict())
      other:step()
      return (o.param_groups[1].lr - 0.01) / 0.09]] },
  { "pytorch#65342", true, "states of both bring both where they were",
    [[local S, a, b = optim.lr_scheduler, sgd(0.1), sgd(0.1)
      local s = S.CosineAnnealingLR(a, { T_max = 20 })
      for _ = 1, 7 do a:step() s:step() end
      local states = { a:state_dict(), s:state_dict() }
      local t = S.CosineAnnealingLR(b, { T_max = 20 })
      b:load_state_dict(states[1])
      t:load_state_dict(states[2])
      for _ = 1, 5 do a:step() s:step() b:step() t:step() end
      return a.param_groups[1].lr == b.param_groups[1].lr]] },
  { "autonomous-learning-library#255", { error = "clip_grad_norm_" }, "infinite norms are an error where asked for",
    [[local p = leaf { 1.0 }
      p.grad = ml.tensor { inf }
      nn.utils.clip_grad_norm_({ p }, 1.0, { error_if_nonfinite = true })]] },
}
