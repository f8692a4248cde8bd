"""tests/reference/make_distributions.py: writes distributions.json: what PyTorch's distributions,
divergences, transforms and constraints give, for tests/lua/ops/distributions_test.lua. Positions count
from 1 there. Needs PyTorch; run by hand."""
import json
import math
import os

import torch
import torch.distributions as D

torch.manual_seed(3)
torch.set_default_dtype(torch.float64)
C = D.constraints


class Made:
    """An object by its class's name and its arguments, which may be made objects too."""

    def __init__(self, kind, name, /, *args, **named):
        self.kind, self.name, self.args, self.named = kind, name, args, named

    def build(self):
        if self.kind == "constraint":
            found = getattr(C, self.name)
            return found(*map(built, self.args)) if self.args else found
        named = {key: built(value) for key, value in self.named.items()}
        for key in ("dim",):
            if self.kind == "transform" and key in named and named[key] > 0:
                named[key] -= 1
        makers = vars(D) | {k: getattr(D.relaxed_bernoulli, k) for k in ("LogitRelaxedBernoulli",)}
        makers["ExpRelaxedCategorical"] = D.relaxed_categorical.ExpRelaxedCategorical
        return makers[self.name](*map(built, self.args), **named)

    def spec(self):
        return {"kind": self.kind, "name": self.name, "args": [written(a) for a in self.args],
                "named": {key: written(value) for key, value in self.named.items()},
                "order": list(self.named)}


def built(value):
    if isinstance(value, Made):
        return value.build()
    return [built(item) for item in value] if isinstance(value, list) else value


def number(value, digits=None):
    if isinstance(value, float):
        if math.isnan(value):
            return "nan"
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        return float(f"{value:.{digits}g}") if digits else value
    return value


def flat(x, digits=None):
    return [number(item, digits) for item in x.detach().reshape(-1).tolist()]


def written(value, digits=None):
    if isinstance(value, Made):
        return value.spec()
    if isinstance(value, torch.Tensor):
        return {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch."),
                "data": flat(value, digits)}
    if isinstance(value, (list, tuple)):
        return [written(item, digits) for item in value]
    return value


def result(value):
    return written(value, 12)


def T(*items):
    return torch.tensor(items)


def d(name, **named):
    return Made("distribution", name, **named)


def t(name, *args, **named):
    return Made("transform", name, *args, **named)


def c(name, *args):
    return Made("constraint", name, *args)


def spd(n, *batch):
    root = torch.randn(*batch, n, n).round(decimals=2)
    return root @ root.mT + torch.eye(n)


def lower(n, *batch):
    return torch.linalg.cholesky(spd(n, *batch))


LOC, SCALE, PROBS = T([0.5, -1.0, 2.0], [0.0, 1.5, -0.3]), T(0.7, 1.5, 2.5), T(0.1, 0.5, 0.8)
A, B = T(0.4, 1.0, 3.5), T([2.0], [0.6])
LOGITS = torch.randn(2, 4).round(decimals=2)
SHARES = (torch.rand(2, 4) * 0.8).round(decimals=2) + 0.1

DISTRIBUTIONS = [
    d("Normal", loc=LOC, scale=SCALE), d("Normal", loc=0.5, scale=2.0),
    d("Laplace", loc=LOC, scale=SCALE), d("Cauchy", loc=LOC, scale=SCALE),
    d("Uniform", low=T(-1.0, 0.0), high=T(2.0, 0.5)), d("Uniform", low=-1.0, high=3.0),
    d("StudentT", df=T(0.8, 1.5, 4.0), loc=LOC, scale=SCALE), d("StudentT", df=3.0),
    d("GeneralizedPareto", loc=LOC, scale=SCALE, concentration=T(0.0, 0.3, -0.4)),
    d("GeneralizedPareto", loc=0.0, scale=1.0, concentration=T(0.7, 1.4)),
    d("VonMises", loc=T(0.2, -1.0, 2.0, 0.0), concentration=T(0.3, 2.0, 20.0, 4.0)),
    d("Exponential", rate=SCALE), d("Exponential", rate=0.5),
    d("Gamma", concentration=A, rate=B), d("Gamma", concentration=2.5, rate=0.5),
    d("Chi2", df=A), d("FisherSnedecor", df1=T(1.5, 3.0, 8.0), df2=T(1.8, 3.5, 9.0)),
    d("Dirichlet", concentration=T([0.4, 0.9, 0.3], [2.0, 1.0, 3.5])),
    d("Dirichlet", concentration=T(3.0, 2.0, 1.5, 0.5)),
    d("Beta", concentration1=A, concentration0=B), d("Beta", concentration1=0.5, concentration0=0.7),
    d("Beta", concentration1=3.0, concentration0=2.0),
    d("Bernoulli", probs=PROBS), d("Bernoulli", logits=LOC), d("Bernoulli", probs=0.3),
    d("Geometric", probs=PROBS), d("Geometric", logits=LOC), d("Geometric", probs=1.0),
    d("Binomial", total_count=5, probs=PROBS), d("Binomial", total_count=T(3.0, 3.0, 3.0), logits=LOC),
    d("Binomial", total_count=T(1.0, 4.0, 7.0), probs=PROBS),
    d("NegativeBinomial", total_count=4.0, probs=PROBS),
    d("NegativeBinomial", total_count=T(0.5, 2.0, 0.0), logits=LOC),
    d("Poisson", rate=T(0.3, 4.0, 20.0)), d("Poisson", rate=2.5),
    d("ContinuousBernoulli", probs=T(0.1, 0.4995, 0.5, 0.9)), d("ContinuousBernoulli", logits=LOC),
    d("ContinuousBernoulli", probs=0.47, lims=[0.4, 0.6]),
    d("Categorical", probs=SHARES), d("Categorical", logits=LOGITS), d("Categorical", probs=SHARES[0]),
    d("OneHotCategorical", probs=SHARES), d("OneHotCategorical", logits=LOGITS[0]),
    d("OneHotCategoricalStraightThrough", logits=LOGITS),
    d("Multinomial", total_count=4, probs=SHARES), d("Multinomial", total_count=3, logits=LOGITS[0]),
    d("Independent", base_distribution=d("Normal", loc=LOC, scale=SCALE), reinterpreted_batch_ndims=1),
    d("Independent", base_distribution=d("Bernoulli", probs=SHARES), reinterpreted_batch_ndims=2),
    d("Independent", base_distribution=d("Categorical", probs=SHARES), reinterpreted_batch_ndims=0),
    d("MixtureSameFamily", mixture_distribution=d("Categorical", probs=T(0.2, 0.5, 0.3)),
      component_distribution=d("Normal", loc=LOC[0], scale=SCALE)),
    d("MixtureSameFamily", mixture_distribution=d("Categorical", logits=LOC),
      component_distribution=d("Independent", base_distribution=d(
          "Normal", loc=torch.randn(2, 3, 2).round(decimals=2), scale=1.5), reinterpreted_batch_ndims=1)),
    d("LogNormal", loc=LOC, scale=SCALE), d("LogNormal", loc=0.1, scale=0.5),
    d("HalfNormal", scale=SCALE), d("HalfCauchy", scale=SCALE),
    d("Gumbel", loc=LOC, scale=SCALE), d("Gumbel", loc=0.5, scale=2.0),
    d("Pareto", scale=SCALE, alpha=T(0.8, 1.7, 3.0)), d("Weibull", scale=SCALE, concentration=T(1.2, 2.0, 3.0)),
    d("Kumaraswamy", concentration1=A, concentration0=B),
    d("InverseGamma", concentration=T(0.8, 1.5, 3.0), rate=B),
    d("LogisticNormal", loc=LOC, scale=SCALE), d("LogisticNormal", loc=0.3, scale=1.2),
    d("RelaxedBernoulli", temperature=T(0.7), probs=PROBS),
    d("RelaxedBernoulli", temperature=T(2.0), logits=LOC),
    d("LogitRelaxedBernoulli", temperature=T(0.7), probs=PROBS),
    d("RelaxedOneHotCategorical", temperature=T(0.6), probs=SHARES),
    d("RelaxedOneHotCategorical", temperature=T(0.6), logits=LOGITS[0]),
    d("ExpRelaxedCategorical", temperature=T(0.6), logits=LOGITS),
    d("MultivariateNormal", loc=T(0.5, -1.0, 2.0), covariance_matrix=spd(3)),
    d("MultivariateNormal", loc=LOC, precision_matrix=spd(3)),
    d("MultivariateNormal", loc=LOC, scale_tril=lower(3, 4, 1)),
    d("MultivariateNormal", loc=T(0.5, -1.0, 2.0), scale_tril=lower(3, 2)),
    d("LowRankMultivariateNormal", loc=LOC, cov_factor=torch.randn(3, 2).round(decimals=2), cov_diag=SCALE),
    d("LowRankMultivariateNormal", loc=LOC[0], cov_factor=torch.randn(2, 3, 1).round(decimals=2), cov_diag=SCALE),
    d("Wishart", df=4.5, covariance_matrix=spd(3)), d("Wishart", df=T(3.0, 5.0), scale_tril=lower(2, 2)),
    d("Wishart", df=T(3.5), precision_matrix=spd(2)),
    d("LKJCholesky", dim=3, concentration=T(0.5, 1.0, 4.0)), d("LKJCholesky", dim=2),
    d("TransformedDistribution", base_distribution=d("Normal", loc=LOC, scale=SCALE),
      transforms=[t("AffineTransform", loc=1.0, scale=-2.0), t("ExpTransform")]),
    d("TransformedDistribution", base_distribution=d("Uniform", low=T(0.0), high=T(1.0)),
      transforms=[t("SigmoidTransform"), t("AffineTransform", loc=T(0.0, 1.0), scale=T(1.0, 2.0))]),
    d("TransformedDistribution", base_distribution=d("Normal", loc=LOC, scale=SCALE), transforms=[]),
    d("TransformedDistribution", base_distribution=d("Normal", loc=LOC, scale=SCALE),
      transforms=t("StickBreakingTransform")),
    d("TransformedDistribution", base_distribution=d("MultivariateNormal", loc=LOC, scale_tril=lower(3)),
      transforms=[t("TanhTransform")]),
]

POSITIONS = ("Categorical",)


def counts_positions(case):
    base = case.named.get("base_distribution")
    return case.name in POSITIONS or (base is not None and base.name in POSITIONS)


def attempt(f):
    try:
        return f()
    except NotImplementedError:
        return None
    except AttributeError as error:
        if "Transform" in str(error) or "sign" in str(error):
            return None
        raise


def parameters(case):
    """The tensors among the arguments, of those inside too, each requiring a gradient."""
    out = []
    for value in list(case.named.values()):
        if isinstance(value, Made):
            out += parameters(value)
        elif isinstance(value, torch.Tensor):
            out.append(value)
    return out


def gradients(case, value):
    tensors = parameters(case)
    if not tensors:
        return []
    for tensor in tensors:
        tensor.requires_grad_()
    try:
        log_prob = case.build().log_prob(value)
        weights = torch.linspace(0.5, 1.5, log_prob.numel()).reshape(log_prob.shape)
        found = torch.autograd.grad((log_prob * weights).sum(), tensors, allow_unused=True)
    finally:
        for tensor in tensors:
            tensor.requires_grad_(False)
    if "scale_tril" in case.named:  # what stands above the diagonal is not used
        found = [g.tril() if g is not None and g.dim() > 1 and g.shape[-1] == g.shape[-2] else g for g in found]
    return [result(g) if g is not None else {"none": True} for g in found]


def distribution_case(case):
    dist, shift = case.build(), 1 if counts_positions(case) else 0
    value = dist.sample((2,))
    if case.name in ("Kumaraswamy", "Beta", "ContinuousBernoulli"):
        value = value.clamp(0.01, 0.99)
    out = {"make": case.spec(), "batch_shape": list(dist.batch_shape), "event_shape": list(dist.event_shape),
           "value": written(value + shift), "log_prob": result(dist.log_prob(value)),
           "has_rsample": bool(dist.has_rsample), "has_enumerate_support": bool(dist.has_enumerate_support)}
    out["grads"] = gradients(case, value)
    for name in ("mean", "mode", "variance", "stddev"):
        found = attempt(lambda: getattr(dist, name))
        if found is not None:
            out[name] = result(found + shift if name == "mode" else found)
    for name in ("entropy", "perplexity"):
        found = attempt(getattr(dist, name))
        if found is not None:
            out[name] = result(found)
    found = attempt(lambda: dist.cdf(value))
    if found is not None:
        out["cdf"] = result(found)
    share = torch.rand(value.shape).round(decimals=3) * 0.98 + 0.01
    found = attempt(lambda: dist.icdf(share))
    if found is not None:
        out["share"], out["icdf"] = written(share), result(found)
    if dist.has_enumerate_support:
        for name, expand in (("listed", True), ("listed_once", False)):
            found = attempt(lambda: dist.enumerate_support(expand))
            if found is not None:
                out[name] = result(found + shift)
    for name in ("covariance_matrix", "precision_matrix", "scale_tril", "probs", "logits"):
        if hasattr(dist, name) and isinstance(getattr(dist, name), torch.Tensor):
            out.setdefault("fields", {})[name] = result(getattr(dist, name))
    wide = dist.expand((3,) + tuple(dist.batch_shape))
    out["wide_log_prob"] = result(wide.log_prob(value[:1].unsqueeze(0).expand((2, 3) + value.shape[1:])))
    return out


OTHERS = {
    "Bernoulli": dict(probs=T(0.2, 0.6, 0.9)), "Beta": dict(concentration1=T(1.5, 0.5, 2.0), concentration0=0.8),
    "Binomial": dict(total_count=5, probs=T(0.2, 0.6, 0.9)), "Categorical": dict(probs=SHARES.flip(-1)),
    "Cauchy": dict(loc=0.3, scale=1.2), "ContinuousBernoulli": dict(probs=T(0.2, 0.5, 0.7)),
    "Dirichlet": dict(concentration=T(1.0, 2.0, 0.5)), "Exponential": dict(rate=T(0.4, 1.1, 2.0)),
    "Gamma": dict(concentration=T(1.5, 0.7, 3.0), rate=0.8), "Geometric": dict(probs=T(0.2, 0.6, 0.9)),
    "Gumbel": dict(loc=T(0.3, -0.2, 1.0), scale=1.3), "HalfNormal": dict(scale=1.3),
    "Laplace": dict(loc=0.4, scale=T(0.5, 1.0, 2.0)), "Normal": dict(loc=0.3, scale=T(0.6, 1.2, 2.2)),
    "OneHotCategorical": dict(logits=LOGITS.flip(-1)), "Pareto": dict(scale=T(0.5, 1.0, 3.0), alpha=T(0.9, 1.6, 2.8)),
    "Poisson": dict(rate=T(0.5, 3.0, 9.0)), "Uniform": dict(low=T(-2.0, 0.1, 0.2), high=T(3.0, 0.4, 0.9)),
}
FIRST = {
    "Bernoulli": dict(probs=PROBS), "Beta": dict(concentration1=A, concentration0=T(2.0, 0.6, 1.0)),
    "Binomial": dict(total_count=T(5.0, 6.0, 7.0), probs=PROBS), "Categorical": dict(probs=SHARES),
    "Cauchy": dict(loc=LOC, scale=SCALE), "ContinuousBernoulli": dict(probs=PROBS),
    "Dirichlet": dict(concentration=T([0.4, 0.9, 0.3], [2.0, 1.0, 3.5])), "Exponential": dict(rate=SCALE),
    "Gamma": dict(concentration=A, rate=B), "Geometric": dict(probs=PROBS), "Gumbel": dict(loc=LOC, scale=SCALE),
    "HalfNormal": dict(scale=SCALE), "Laplace": dict(loc=LOC, scale=SCALE), "Normal": dict(loc=LOC, scale=SCALE),
    "OneHotCategorical": dict(logits=LOGITS), "Pareto": dict(scale=SCALE, alpha=T(0.8, 1.7, 3.0)),
    "Poisson": dict(rate=T(0.3, 4.0, 20.0)), "Uniform": dict(low=T(-1.0, 0.1, 0.3), high=T(2.0, 0.3, 0.8)),
}


def divergence_case(p, q):
    return {"p": p.spec(), "q": q.spec(), "divergence": result(D.kl_divergence(p.build(), q.build()))}


def divergences():
    out = []
    for p, q in sorted(D.kl._KL_REGISTRY, key=lambda pair: (pair[0].__name__, pair[1].__name__)):
        if p.__name__ in FIRST and q.__name__ in OTHERS:
            out.append(divergence_case(d(p.__name__, **FIRST[p.__name__]), d(q.__name__, **OTHERS[q.__name__])))
    full = [d("MultivariateNormal", loc=LOC, scale_tril=lower(3)),
            d("MultivariateNormal", loc=LOC[0], covariance_matrix=spd(3, 2)),
            d("LowRankMultivariateNormal", loc=LOC, cov_factor=torch.randn(3, 2).round(decimals=2), cov_diag=SCALE),
            d("LowRankMultivariateNormal", loc=LOC[1], cov_factor=torch.randn(2, 3, 1).round(decimals=2), cov_diag=SCALE)]
    out += [divergence_case(p, q) for p in full for q in full]
    out.append(divergence_case(d("Bernoulli", probs=T(0.0, 0.0, 0.4, 1.0, 1.0, 0.4)),
                               d("Bernoulli", probs=T(0.3, 0.0, 0.0, 1.0, 0.2, 1.0))))
    out.append(divergence_case(d("Categorical", probs=T([0.0, 1.0], [0.5, 0.5])),
                               d("Categorical", probs=T([0.3, 0.7], [0.0, 1.0]))))
    out.append(divergence_case(d("Wishart", df=4.5, covariance_matrix=spd(3)), d("Wishart", df=6.0, scale_tril=lower(3))))
    out.append(divergence_case(d("Chi2", df=A), d("Gamma", concentration=2.0, rate=T(1.5))))
    out.append(divergence_case(d("LogNormal", loc=LOC, scale=SCALE), d("LogNormal", loc=0.0, scale=1.0)))
    out.append(divergence_case(
        d("Independent", base_distribution=FIRST_NORMAL, reinterpreted_batch_ndims=1),
        d("Independent", base_distribution=d("Normal", loc=T([0.0, 0.0, 0.0]), scale=1.0), reinterpreted_batch_ndims=1)))
    return out


FIRST_NORMAL = d("Normal", loc=LOC, scale=SCALE)
X = torch.randn(2, 3).round(decimals=2)
TRANSFORMS = [
    (t("ExpTransform"), X), (t("PowerTransform", exponent=2.5), X.abs() + 0.1),
    (t("PowerTransform", exponent=T(0.5, -1.0, 2.0)), X.abs() + 0.1), (t("SigmoidTransform"), X),
    (t("SoftplusTransform"), X), (t("TanhTransform"), X), (t("AbsTransform"), X),
    (t("AffineTransform", loc=1.0, scale=-2.0), X), (t("AffineTransform", loc=T(1.0, 0.0, 2.0), scale=T(0.5, 2.0, -1.0)), X),
    (t("AffineTransform", loc=0.5, scale=T(0.5, 2.0, -1.0), event_dim=1), X),
    (t("CorrCholeskyTransform"), X), (t("CorrCholeskyTransform"), torch.randn(6).round(decimals=2)),
    (t("SoftmaxTransform"), X), (t("StickBreakingTransform"), X),
    (t("LowerCholeskyTransform"), torch.randn(2, 3, 3).round(decimals=2)),
    (t("PositiveDefiniteTransform"), torch.randn(2, 2).round(decimals=2)),
    (t("ReshapeTransform", in_shape=[2, 3], out_shape=[6]), torch.randn(4, 2, 3).round(decimals=2)),
    (t("IndependentTransform", base_transform=t("ExpTransform"), reinterpreted_batch_ndims=1), X),
    (t("ComposeTransform", parts=[t("AffineTransform", loc=0.0, scale=2.0), t("StickBreakingTransform")]), X),
    (t("ComposeTransform", parts=[t("TanhTransform"), t("AffineTransform", loc=1.0, scale=3.0), t("ExpTransform")]), X),
    (t("CatTransform", tseq=[t("ExpTransform"), t("TanhTransform")], dim=2, lengths=[1, 2]), X),
    (t("CatTransform", tseq=[t("ExpTransform"), t("SigmoidTransform"), t("TanhTransform")], dim=-1), X),
    (t("StackTransform", tseq=[t("ExpTransform"), t("TanhTransform")], dim=1), X),
    (t("CumulativeDistributionTransform", distribution=d("Normal", loc=0.5, scale=2.0)), X),
]


def transform_case(made, x):
    transform = made.build()
    y = transform(x)
    out = {"make": made.spec(), "x": written(x), "y": result(y), "bijective": bool(transform.bijective),
           "forward_shape": list(transform.forward_shape(x.shape)), "inverse_shape": list(transform.inverse_shape(y.shape)),
           "domain_dim": transform.domain.event_dim, "codomain_dim": transform.codomain.event_dim}
    inverse = attempt(lambda: transform.inv(y))
    if inverse is not None:
        out["inverse"] = result(inverse)
    jacobian = attempt(lambda: transform.log_abs_det_jacobian(x, y))
    if jacobian is not None:
        out["jacobian"] = result(jacobian)
    sign = attempt(lambda: transform.sign)
    if sign is not None:
        out["sign"] = result(sign)
    return out


BAD = T(-1.5, -1.0, 0.0, 0.25, 0.5, 1.0, 2.0, math.nan)
MATRICES = torch.stack([torch.eye(2), T([2.0, 1.0], [1.0, 2.0]), T([1.0, 0.0], [2.0, 1.0]), T([1.0, 2.0], [2.0, 1.0]),
                        T([1.0, 0.0], [0.6, 0.8]), T([1.0, 1.0], [1.0, 1.0]), T([-1.0, 0.0], [0.0, -2.0])])
CONSTRAINTS = [(c(name), BAD) for name in (
    "boolean", "nonnegative_integer", "positive_integer", "real", "positive", "nonnegative", "unit_interval")] + [
    (c("integer_interval", -1, 1), BAD), (c("greater_than", 0.25), BAD), (c("greater_than_eq", 0.25), BAD),
    (c("less_than", T([0.25], [1.0])), BAD), (c("interval", -1.0, 0.5), BAD), (c("half_open_interval", -1.0, 0.5), BAD),
    (c("real_vector"), T([1.0, math.nan], [1.0, 2.0])), (c("one_hot"), T([0.0, 1.0], [1.0, 1.0], [0.5, 0.5], [0.0, 0.0])),
    (c("simplex"), T([0.5, 0.5], [0.5, 0.6], [-0.5, 1.5])), (c("multinomial", 3), T([1.0, 2.0], [2.0, 2.0], [-1.0, 1.0])),
] + [(c(name), MATRICES) for name in ("lower_triangular", "lower_cholesky", "corr_cholesky", "square", "symmetric")] + [
    (c("positive_semidefinite"), MATRICES[[0, 1, 3, 5, 6]]), (c("positive_definite"), MATRICES[[0, 1, 3, 5, 6]]),
    (c("square"), torch.zeros(2, 2, 3)), (c("independent", c("positive"), 1), T([1.0, 2.0], [1.0, -1.0])),
    (c("MixtureSameFamilyConstraint", c("positive")), T(1.0, -1.0)),
    (c("cat", [c("positive"), c("real")], 0, [1, 2]), T(-1.0, -1.0, 2.0)),
    (c("stack", [c("positive"), c("unit_interval")], 0), T([1.0, -1.0], [1.0, 2.0])),
]


def constraint_case(made, value):
    constraint = made.build()
    out = {"make": made.spec(), "value": written(value), "check": result(constraint.check(value)),
           "is_discrete": bool(constraint.is_discrete), "event_dim": constraint.event_dim}
    if made.name in ("cat", "stack"):
        out["make"]["args"][1] += 1
    for name, registry in (("biject_to", D.biject_to), ("transform_to", D.transform_to)):
        try:
            transform = registry(constraint)
        except NotImplementedError:
            continue
        shapes = {"lower_cholesky": (2, 2), "positive_definite": (2, 2), "positive_semidefinite": (2, 2),
                  "simplex": (3,), "corr_cholesky": (3,)}
        if made.name in ("less_than", "cat", "stack") or made.name == "independent":
            x = torch.randn(value.shape if made.name != "less_than" else (2, 8)).round(decimals=2)
        else:
            x = torch.randn(shapes.get(made.name, (3,))).round(decimals=2)
        out[name] = {"x": written(x), "y": result(transform(x))}
    return out


def main():
    out = {"distributions": [distribution_case(case) for case in DISTRIBUTIONS], "divergences": divergences(),
           "transforms": [transform_case(*case) for case in TRANSFORMS],
           "constraints": [constraint_case(*case) for case in CONSTRAINTS]}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "values", "distributions.json")
    with open(path, "w") as file:
        lines = []
        for key, cases in out.items():
            rows = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
            lines.append(f'"{key}":[\n{rows}\n]')
        file.write("{" + ",\n".join(lines) + "}\n")
    print({key: len(cases) for key, cases in out.items()})


main()
