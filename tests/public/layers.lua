-- tests/public/layers.lua: reports of layers and losses; run.lua tells what a row holds.

local r = math.sqrt(2.5)

return {
  { "pytorch#162489", { 1 / r, -1 / r, 2 / r, -2 / r }, "the squares overflow, the result does not", tolerance = 1e-4,
    "F.layer_norm(ml.tensor { { 1e30, -1e30, 2e30, -2e30 } }, { 4 })" },
  { "pytorch#162489", { 1, -1 }, "the same by groups", tolerance = 1e-4, "F.group_norm(ml.tensor { { 1e30, -1e30 } }, 1)" },
  { "pytorch#162489", { 1, -1 }, "the same by channels", tolerance = 1e-4,
    "F.batch_norm(ml.tensor { { 1e30 }, { -1e30 } }, nil, nil, { training = true })" },
  { "burn#5607", { -1.341636, -0.447212, 0.447212, 1.341636 }, "a mean of 40,000 and deviations of 1", tolerance = 1e-4,
    "F.layer_norm(ml.tensor { { 40000., 40001., 40002., 40003. } }, { 4 })" },
  { "onnxruntime#28463", true, "a mean of 10,000 and deviations of thousandths",
    [[local row = ml.arange(0., 15.) * 1e-3 + 10000
      local y = F.layer_norm(row:unsqueeze(1), { 16 }):double()
      return (y - F.layer_norm(row:double():unsqueeze(1), { 16 })):abs():max():item() < 2e-3]] },
  { "pytorch#51102", true, "a batch norm of a mean of 1,000 and deviations of hundredths",
    [[local x = ml.randn(4, 33) * 0.01 + 1000
      local y = F.batch_norm(x, nil, nil, { training = true }):double()
      return (y - F.batch_norm(x:double(), nil, nil, { training = true })):abs():max():item() < 2e-2]] },
  { "pytorch#75181", true, "the mean of no losses is 0 / 0, as PyTorch documents",
    "F.cross_entropy(ml.tensor { { 1., 2., 3. } }, ml.tensor { -1 }, { ignore_index = -1 }):isnan()" },
  { "pytorch#12670", { error = "cross_entropy" }, "a class that does not exist is an error, wherever it stands",
    "F.cross_entropy(ml.randn(3, 5), ml.tensor { 1, 2, 9 }, { reduction = 'none' })" },
  { "pytorch#20406", false, "no loss but the ignored ones is special",
    [[F.nll_loss(ml.full({ 12, 2 }, -0.7), ml.tensor { 2, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1 },
        { ignore_index = -1, reduction = "none" }):isnan():any()]] },
  { "pytorch#72056", true, "label smoothing leaves the ignored classes out",
    [[F.cross_entropy(ml.tensor { { 0.1735, 0.2191 }, { -0.1377, 0.3467 } }, ml.tensor { 1, -1 },
        { weight = ml.tensor { 1., 16. }, ignore_index = -1, label_smoothing = 0.1 }):isfinite()]] },
  { "pytorch#116420", { 1, 1, 3, 3 }, "the last window must start inside the input or the left padding",
    "nn.AvgPool2d(4, { stride = 4, padding = 2, ceil_mode = true })(ml.ones(1, 1, 9, 9)).shape:tolist()" },
  { "pytorch#57178", { 1, 3, 16, 16 }, "the same for maxima",
    "nn.MaxPool2d(1, { stride = 2, ceil_mode = true })(ml.rand(1, 3, 32, 32)).shape:tolist()" },
  { "pytorch#88144", { 1, 3, 7, 7 }, "the last window that covers new elements",
    "nn.AvgPool2d(8, { stride = 4, ceil_mode = true })(ml.ones(1, 3, 32, 32)).shape:tolist()" },
  { "pytorch#36977", false, "no window lies outside the input",
    "F.avg_pool2d(ml.ones(1, 1, 4, 4), { 1, 2 }, { stride = 2, padding = { 0, 1 }, ceil_mode = true }):isnan():any()" },
  { "coremltools#2772", { 2, 3.5, 6.5, 8 }, "a window over the edge is divided by the elements it has",
    "F.avg_pool2d(ml.arange(0., 8.):reshape(1, 1, 3, 3), 2, { stride = 2, ceil_mode = true })" },
}
