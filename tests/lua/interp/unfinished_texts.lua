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
  numbers = true, onnx = true, ops_activation = true, ops_arithmetic = true, ops_clone = true,
  ops_compare = true, ops_complex = true, ops_conv = true, ops_convert = true, ops_copy = true,
  ops_create = true, ops_decomposition = true, ops_fft = true, ops_gather = true,
  ops_image = true, ops_index = true, ops_linalg = true, ops_logic = true, ops_loss = true,
  ops_math = true, ops_nn = true, ops_normalization = true, ops_pool = true, ops_random = true,
  ops_recurrent = true, ops_reduce = true, ops_scan = true, ops_shape = true, ops_softmax = true,
  ops_sort = true, ops_special = true, ops_statistics = true, ops_window = true, optim = true,
  ["optim.lr_scheduler"] = true, ["optim.swa_utils"] = true, plot = true, progress = true,
  random = true, storage = true, tensor = true, train = true, ["utils.tensorboard"] = true,
}
