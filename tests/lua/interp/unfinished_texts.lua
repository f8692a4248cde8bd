-- tests/lua/interp/unfinished_texts.lua: the pages of the reference whose texts are being written, by
-- name: help_texts_test.lua asks of the others that their texts are whole.

return {
  amp = true, args = true, autograd = true, ["autograd.functional"] = true,
  ["autograd.profiler"] = true, backends = true, ["backends.cudnn"] = true, class = true,
  data = true, distributions = true, ["distributions.constraints"] = true,
  ["distributions.transforms"] = true, help = true, json = true, metrics = true, moonlet = true,
  nn = true, ["nn.functional"] = true, ["nn.init"] = true, ["nn.utils"] = true,
  ["nn.utils.parametrizations"] = true, ["nn.utils.parametrize"] = true,
  ["nn.utils.prune"] = true, ["nn.utils.rnn"] = true, ["nn.utils.stateless"] = true,
  numbers = true, onnx = true, optim = true,
  ["optim.lr_scheduler"] = true, ["optim.swa_utils"] = true, plot = true, progress = true,
  random = true, storage = true, tensor = true, train = true, ["utils.tensorboard"] = true,
}
