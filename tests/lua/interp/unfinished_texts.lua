-- tests/lua/interp/unfinished_texts.lua: the pages of the reference whose texts are being written, by
-- name: help_texts_test.lua asks of the others that their texts are whole.

return {
  nn = true, ["nn.functional"] = true, ["nn.init"] = true, ["nn.utils"] = true,
  ["nn.utils.parametrizations"] = true, ["nn.utils.parametrize"] = true,
  ["nn.utils.prune"] = true, ["nn.utils.rnn"] = true, ["nn.utils.stateless"] = true,
  optim = true,
  ["optim.lr_scheduler"] = true, ["optim.swa_utils"] = true,
}
