-- tensor/ops/gen/common_args.lua: what arguments are that mean the same wherever they are: in the op
-- rows and in the declared functions of stdlib/. The field `args` of a row, or the comment of a
-- function, says it where it is otherwise. A text is a phrase without a full stop.

local common_args = {}

--- By the op's kind and the argument's name.
common_args.of_kind = {
  pointwise = {
    x = "the input",
    other = "the other input, broadcast with `x`",
  },
}

--- By the op's family and the argument's name.
common_args.of_family = {
  pool = { x = "the input, with or without a batch dimension" },
  image = { x = "the image, or a batch of images" },
}

--- By the argument's type and name.
common_args.of_type = {
  ["Dim[*]"] = { dim = "the dimension or dimensions, counted from 1; all where it is left out or `{}`" },
  ["Dim[]?"] = { dim = "the dimension or dimensions, counted from 1; all where it is left out" },
  ["Dim[]"] = { dim = "the dimension or dimensions, counted from 1" },
  ["Dim?"] = { dim = "the dimension, counted from 1; all where it is left out" },
  ["int[]"] = { size = "the shape of the result" },
}

--- Of the classes of layers, by the argument's name.
common_args.of_layer = {
  dtype = "the dtype of the parameters and buffers",
  device = "the device of the parameters and buffers",
  kernel_size = "the size of the window, one number or one for each dimension",
  stride = "the step of the window, one number or one for each dimension",
  dilation = "the distance between the elements of the window",
  groups = "the number of groups into which the channels are divided, each with filters of its own",
  num_layers = "the number of layers stacked",
  batch_first = "whether the batch dimension is the first, not the second",
  bidirectional = "whether a second network runs backwards over the sequence",
  in_features = "the size of each input sample",
  out_features = "the size of each output sample",
  in_channels = "the number of channels of the input",
  out_channels = "the number of channels of the output",
  hidden_size = "the number of features of the hidden state",
  input_size = "the number of features of the input",
  affine = "whether there are a weight and a bias that are learned",
  elementwise_affine = "whether there are a weight and a bias that are learned, for each element",
  track_running_stats = "whether the mean and variance are averaged over batches, for evaluation",
  num_features = "the number of channels, the second dimension of the input",
  padding_mode = "what is added: \"zeros\", \"reflect\", \"replicate\" or \"circular\"",
  ceil_mode = "whether the output's size is rounded up, so that windows cover the whole input",
  count_include_pad = "whether padded zeros count in the mean",
  return_indices = "whether the positions of the maxima are returned too",
  output_size = "the size of the output, one number or one for each dimension",
}

--- By the argument's name alone.
common_args.everywhere = {
  input = "the input", x = "the input",
  dim = "the dimension, counted from 1, or from the end where it is negative",
  dims = "the dimensions, counted from 1, or from the end where they are negative",
  dim1 = "the first dimension", dim2 = "the second dimension",
  keepdim = "whether reduced dimensions are kept with size 1",
  dtype = "the dtype of the result",
  device = "the device of the result, such as \"cpu\" or \"cuda:0\"",
  requires_grad = "whether the result requires gradients",
  generator = "the source of random numbers; the default generator where it is left out",
  memory_format = "the order of the result in memory",
  out = "the tensor that the result is written to",
  reduction = "how the losses of the elements are joined: \"mean\", \"sum\" or \"none\"",
  eps = "the small number added to a denominator for numerical stability",
  training = "whether it does what it does in training, not in evaluation",
  inplace = "whether the input is overwritten with the result",
  lr = "the learning rate",
  betas = "the decay rates of the running averages of the gradient and its square",
  maximize = "whether to maximise the objective rather than minimise it",
  foreach = "whether all parameters are updated together, by fewer and larger ops",
  fused = "whether one kernel makes the whole update",
  capturable = "whether the step can be captured in a CUDA graph",
  differentiable = "whether gradients flow through the step",
  correction = "the difference between the number of elements and the degrees of freedom",
  unbiased = "whether to divide by the number of elements less one (Bessel's correction)",
  ignore_index = "a class whose targets count for nothing",
  label_smoothing = "the part, from 0 to 1, of the target's probability that all classes share evenly",
  align_corners = "whether the centres of the corner elements stay where they are, and not the corners themselves",
  tensors = "the tensors",
  index = "indices, counted from 1",
  descending = "whether the largest comes first",
  stable = "whether equal elements keep their order",
  sorted = "whether the result is sorted",
  validate_args = "whether parameters and values are checked",
  dropout = "the probability of dropout",
  last_epoch = "the number of the last epoch, for a run that goes on; -1 at the start",
  optimizer = "the optimiser whose learning rates are set",
}

return common_args
