-- stdlib/distributions.lua: ml.distributions: probability distributions with samples, log
-- probabilities, moments and divergences, the constraints of their parameters, and transforms.

-- Each part is loaded when one of its names is first used.

local options = require "moonlet.options"

return options.namespace("distributions", {}, options.late {
  ["distributions.constraints"] = { "constraints" },
  ["distributions.transforms"] = { "transforms" },
  ["distributions.registry"] = { "ConstraintRegistry", "biject_to", "transform_to" },
  ["distributions.distribution"] = { "Distribution", "ExponentialFamily" },
  ["distributions.location"] = { "Normal", "Laplace", "Cauchy", "Uniform", "StudentT",
    "GeneralizedPareto", "VonMises" },
  ["distributions.gamma"] = { "Exponential", "Gamma", "Chi2", "FisherSnedecor", "Dirichlet",
    "Beta" },
  ["distributions.discrete"] = { "Bernoulli", "Geometric", "Binomial", "NegativeBinomial",
    "Poisson", "ContinuousBernoulli" },
  ["distributions.categorical"] = { "Categorical", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Multinomial" },
  ["distributions.transformed"] = { "Independent", "TransformedDistribution",
    "MixtureSameFamily" },
  ["distributions.derived"] = { "LogNormal", "HalfNormal", "HalfCauchy", "Gumbel", "Pareto",
    "Weibull", "Kumaraswamy", "InverseGamma", "LogisticNormal" },
  ["distributions.relaxed"] = { "LogitRelaxedBernoulli", "RelaxedBernoulli",
    "ExpRelaxedCategorical", "RelaxedOneHotCategorical" },
  ["distributions.multivariate"] = { "MultivariateNormal", "LowRankMultivariateNormal" },
  ["distributions.matrices"] = { "Wishart", "LKJCholesky" },
  ["distributions.kl"] = { "kl_divergence", "register_kl" },
  ["distributions.transforms.base"] = { "Transform", "ComposeTransform", "IndependentTransform",
    "ReshapeTransform", "identity_transform" },
  ["distributions.transforms.elementwise"] = { "ExpTransform", "PowerTransform",
    "SigmoidTransform", "SoftplusTransform", "TanhTransform", "AbsTransform", "AffineTransform" },
  ["distributions.transforms.vectors"] = { "CorrCholeskyTransform", "SoftmaxTransform",
    "StickBreakingTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform" },
  ["distributions.transforms.parts"] = { "CatTransform", "StackTransform",
    "CumulativeDistributionTransform" },
})
