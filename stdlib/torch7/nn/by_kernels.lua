-- stdlib/torch7/nn/by_kernels.lua: layers that are calls of THNN's functions.

local THNN = require "moonlet.torch7.thnn"

local kernels = THNN.kernels["torch.DoubleTensor"]

--- Gives a class the functions `name` of THNN's as its own. What a call has besides the tensors
--- that all have is said by functions: forward(self) follows (input, output), back(self) (input,
--- gradOutput, gradInput), and accumulate(self, scale) follows (input, gradOutput). Without a
--- gradInput, which scripts take away from a first layer, its gradient is not computed.
return function(class, name, forward, back, accumulate)
  function class:updateOutput(input)
    kernels[name .. "_updateOutput"](input, self.output, forward(self))
    return self.output
  end
  function class:updateGradInput(input, gradOutput)
    if not self.gradInput then return nil end
    kernels[name .. "_updateGradInput"](input, gradOutput, self.gradInput, back(self))
    return self.gradInput
  end
  if not accumulate then return end
  function class:accGradParameters(input, gradOutput, scale)
    kernels[name .. "_accGradParameters"](input, gradOutput, accumulate(self, scale or 1))
  end
end
