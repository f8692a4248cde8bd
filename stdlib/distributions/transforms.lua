-- stdlib/distributions/transforms.lua: ml.distributions.transforms: invertible transforms with the
-- logarithms of the determinants of their Jacobians.

local options = require "moonlet.options"

return options.namespace("distributions.transforms", {}, options.late {
  ["distributions.transforms.base"] = { "Transform", "ComposeTransform", "IndependentTransform",
    "ReshapeTransform", "identity_transform" },
  ["distributions.transforms.elementwise"] = { "ExpTransform", "PowerTransform",
    "SigmoidTransform", "SoftplusTransform", "TanhTransform", "AbsTransform", "AffineTransform" },
  ["distributions.transforms.vectors"] = { "CorrCholeskyTransform", "SoftmaxTransform",
    "StickBreakingTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform" },
  ["distributions.transforms.parts"] = { "CatTransform", "StackTransform",
    "CumulativeDistributionTransform" },
})
