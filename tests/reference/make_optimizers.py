"""tests/reference/make_optimizers.py: writes tests/reference/values/optimizers.json, what
tests/lua/optim/optimizers_test.lua compares with: where PyTorch's optimisers bring a matrix, a vector and a
number in ten steps, and the keys of their state dicts; the learning rates of its schedules and the
keys of theirs; averages of weights. Needs PyTorch; run by hand.
usage: python3 tests/reference/make_optimizers.py
"""
import json, math, os, warnings
import torch
from torch.optim import lr_scheduler, swa_utils

warnings.simplefilter("ignore")


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of Chen et al., 2023, which PyTorch lacks."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize,
                                      foreach=None, capturable=False, differentiable=False))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                g = -p.grad if group["maximize"] else p.grad
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                self.state[p]["step"] = self.state[p].get("step", 0) + 1
                c = torch.sign(b1 * m + (1 - b1) * g)
                p.copy_(p - group["lr"] * (c + group["weight_decay"] * p))
                m.copy_(b2 * m + (1 - b2) * g)


SWITCHES = dict(maximize=True)
CASES = [
    ("SGD", {}), ("SGD", dict(lr=0.1, momentum=0.9)), ("SGD", dict(lr=0.05, momentum=0.9, dampening=0.3)),
    ("SGD", dict(lr=0.05, momentum=0.8, nesterov=True, weight_decay=0.01)), ("SGD", dict(lr=0.01, maximize=True)),
    ("Adam", {}), ("Adam", dict(lr=0.05, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)),
    ("Adam", dict(lr=0.1, amsgrad=True)), ("Adam", dict(lr=0.1, maximize=True)),
    ("Adam", dict(lr=0.1, weight_decay=0.3, decoupled_weight_decay=True)),
    ("AdamW", {}), ("AdamW", dict(lr=0.05, weight_decay=0.3, amsgrad=True, maximize=True)),
    ("Adagrad", {}), ("Adagrad", dict(lr=0.3, lr_decay=0.1, weight_decay=0.1, eps=1e-6)),
    ("Adagrad", dict(lr=0.1, initial_accumulator_value=0.5, maximize=True)),
    ("Adadelta", {}), ("Adadelta", dict(lr=0.7, rho=0.8, eps=1e-4, weight_decay=0.1)),
    ("Adadelta", dict(maximize=True)),
    ("Adamax", {}), ("Adamax", dict(lr=0.05, betas=(0.8, 0.95), eps=1e-5, weight_decay=0.1)),
    ("Adamax", dict(lr=0.01, maximize=True)),
    ("NAdam", {}), ("NAdam", dict(lr=0.05, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)),
    ("NAdam", dict(lr=0.05, momentum_decay=0.1, weight_decay=0.2, decoupled_weight_decay=True)),
    ("NAdam", dict(lr=0.01, maximize=True)),
    ("RAdam", {}), ("RAdam", dict(lr=0.05, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.1)),
    ("RAdam", dict(lr=0.05, weight_decay=0.2, decoupled_weight_decay=True)),
    ("RAdam", dict(lr=0.01, maximize=True)),
    ("ASGD", {}), ("ASGD", dict(lr=0.05, lambd=0.1, alpha=0.5, t0=3, weight_decay=0.1)),
    ("ASGD", dict(t0=0, maximize=True)),
    ("RMSprop", {}), ("RMSprop", dict(lr=0.05, alpha=0.9, eps=1e-5, weight_decay=0.1)),
    ("RMSprop", dict(lr=0.01, momentum=0.9)), ("RMSprop", dict(lr=0.01, centered=True)),
    ("RMSprop", dict(lr=0.01, centered=True, momentum=0.5, maximize=True)),
    ("Rprop", {}), ("Rprop", dict(lr=0.1, etas=(0.4, 1.5), step_sizes=(1e-3, 0.3))),
    ("Rprop", dict(maximize=True)),
    ("Adafactor", {}), ("Adafactor", dict(lr=0.1, beta2_decay=-0.5, eps=(1e-4, 1e-2), d=1.5, weight_decay=0.1)),
    ("Adafactor", dict(maximize=True)),
    ("Lion", {}), ("Lion", dict(lr=0.01, betas=(0.8, 0.95), weight_decay=0.3)), ("Lion", dict(maximize=True)),
    ("Muon", {}), ("Muon", dict(lr=0.1, momentum=0.8, nesterov=False, weight_decay=0)),
    ("Muon", dict(adjust_lr_fn="match_rms_adamw", ns_steps=3)),
    ("Muon", dict(adjust_lr_fn="spectral_unclamped", ns_coefficients=(3.0, -4.0, 2.0), eps=1e-3)),
    ("LBFGS", {}), ("LBFGS", dict(lr=0.5, max_iter=4, history_size=3)),
    ("LBFGS", dict(lr=0.5, max_iter=5, line_search_fn="strong_wolfe", history_size=2)),
    ("LBFGS", dict(max_iter=3, max_eval=3, tolerance_grad=1e-3, tolerance_change=1e-4)),
]
# The gradients turn and shrink on the way.
SCALES = [1, 4, 0.1, 0.5, 1, 1, 0.2, 2, 1, 1]


def starts(name, dtype):
    w = torch.tensor([[1.0, -2.0, 0.5], [3.0, 0.25, -1.5]], dtype=dtype)
    values = [w, w[:, :2].t() * 1.5 if name == "Muon" else torch.tensor([0.5, -0.75], dtype=dtype)]
    if name != "Muon":
        values.append(torch.tensor(0.3, dtype=dtype))
    return [v.clone().contiguous().requires_grad_() for v in values]


def loss_of(params, step, name):
    """Bowls around points that move; what LBFGS gets does not move, and is no quadratic."""
    total = 0
    for i, p in enumerate(params):
        if name == "LBFGS":
            total = total + ((p - 0.5 * i) ** 2 * (i + 1)).sum() + 0.1 * (p ** 4).sum()
        else:
            total = total + ((p * (i + 1) - 0.2 * step) ** 2).sum() / 2
    return total if name == "LBFGS" else total * SCALES[step]


def flat(params):
    return [v for p in params for v in p.detach().reshape(-1).tolist()]


def shapes(state):
    out = {}
    for key, value in state.items():
        if torch.is_tensor(value):
            value = list(value.shape)
        elif isinstance(value, list):
            value = "list"
        out[key] = value if value == "list" or isinstance(value, list) else "number"
    return out


def run(name, options, dtype):
    params = starts(name, dtype)
    optimizer = (Lion if name == "Lion" else getattr(torch.optim, name))(params, **options)
    trace = []
    for step in range(10):
        def closure():
            optimizer.zero_grad()
            loss = loss_of(params, step, name)
            loss.backward()
            return loss
        if name == "LBFGS":
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
        if step in (0, 4, 9):
            trace.append(flat(params))
    state = optimizer.state_dict()
    return trace, state


def plain(value):
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if isinstance(value, (list, tuple)):
        return [False if v is None else plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items() if v is not None}
    return value


def optimizer_case(name, options):
    """A case of an optimiser: what its ten steps do in two dtypes, and what its state holds."""
    case = dict(name=name, options=plain(options))
    for dtype in ("float32", "float64"):
        case[dtype], state = run(name, options, getattr(torch, dtype))
    case["group_keys"] = sorted(k for k, v in state["param_groups"][0].items() if v is not None)
    case["params"] = state["param_groups"][0]["params"]
    case["state"] = [shapes(state["state"][k]) for k in sorted(state["state"])]
    return case


# --- schedules ---------------------------------------------------------------------------------

f = lambda epoch: 1 / (1 + epoch / 4)
SCHEDULES = [
    ("StepLR", dict(step_size=3, gamma=0.5)), ("MultiStepLR", dict(milestones=[2, 5, 5], gamma=0.5)),
    ("ConstantLR", dict(factor=0.25, total_iters=4)), ("ConstantLR", {}),
    ("LinearLR", dict(start_factor=0.25, end_factor=0.75, total_iters=4)), ("LinearLR", {}),
    ("ExponentialLR", dict(gamma=0.9)), ("PolynomialLR", {}), ("PolynomialLR", dict(total_iters=8, power=2.5)),
    ("CosineAnnealingLR", dict(T_max=4, eta_min=0.01)), ("CosineAnnealingWarmRestarts", dict(T_0=3)),
    ("CosineAnnealingWarmRestarts", dict(T_0=2, T_mult=2, eta_min=0.01)),
    ("LambdaLR", dict(lr_lambda=f)), ("MultiplicativeLR", dict(lr_lambda=f)),
    ("CyclicLR", dict(base_lr=0.01, max_lr=0.1, step_size_up=3)),
    ("CyclicLR", dict(base_lr=0.01, max_lr=0.1, step_size_up=2, step_size_down=3, mode="triangular2",
                      base_momentum=0.7, max_momentum=0.95)),
    ("CyclicLR", dict(base_lr=[0.01, 0.02], max_lr=[0.1, 0.3], step_size_up=2, mode="exp_range", gamma=0.9,
                      cycle_momentum=False)),
    ("CyclicLR", dict(base_lr=0.01, max_lr=0.1, step_size_up=2, scale_fn=f, scale_mode="iterations")),
    ("OneCycleLR", dict(max_lr=0.5, total_steps=14)),
    ("OneCycleLR", dict(max_lr=[0.5, 0.2], epochs=7, steps_per_epoch=2, pct_start=0.25, anneal_strategy="linear",
                        three_phase=True, base_momentum=0.7, max_momentum=0.9, div_factor=10, final_div_factor=100)),
    ("OneCycleLR", dict(max_lr=0.5, total_steps=14, cycle_momentum=False)),
    ("SWALR", dict(swa_lr=0.02)), ("SWALR", dict(swa_lr=[0.02, 0.5], anneal_epochs=4, anneal_strategy="linear")),
    ("SWALR", dict(swa_lr=0.02, anneal_epochs=0)),
]


def two_groups(kind="SGD"):
    p, q = (torch.zeros(1, requires_grad=True) for _ in range(2))
    options = dict(momentum=0.9) if kind == "SGD" else {}
    return getattr(torch.optim, kind)([dict(params=[p]), dict(params=[q], lr=0.4)], lr=0.1, **options)


def rates(optimizer):
    return [g["lr"] for g in optimizer.param_groups]


def momenta(optimizer):
    return [g["betas"][0] if "betas" in g else g.get("momentum", 0) for g in optimizer.param_groups]


def follow(optimizer, schedule, count=14):
    out = []
    for _ in range(count):
        out.append([rates(optimizer), momenta(optimizer)])
        if len(out) < count:
            schedule.step()
    return out


def schedule_case(name, options, kind):
    """A case of a schedule: 14 learning rates and momenta, and the keys of its state."""
    optimizer = two_groups(kind)
    schedule = getattr(swa_utils if name == "SWALR" else lr_scheduler, name)(optimizer, **options)
    given = {k: "f" if callable(v) else plain(v) for k, v in options.items()}
    return dict(name=name, optimizer=kind, options=given, values=follow(optimizer, schedule),
                keys=sorted(k for k, v in schedule.state_dict().items() if v is not None),
                last_lr=schedule.get_last_lr())


def main():
    optimizers = [optimizer_case(name, options) for name, options in CASES]
    schedules = [schedule_case(name, options, kind) for name, options in SCHEDULES
                 for kind in (("SGD", "Adam") if name in ("CyclicLR", "OneCycleLR") else ("SGD",))]
    optimizer = two_groups()
    chained = lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(optimizer, factor=0.1, total_iters=3), lr_scheduler.ExponentialLR(optimizer, 0.9)])
    chain = dict(values=follow(optimizer, chained), keys=sorted(chained.state_dict()))
    optimizer = two_groups()
    nested = lr_scheduler.SequentialLR(optimizer, [
        lr_scheduler.ChainedScheduler([lr_scheduler.LinearLR(optimizer, total_iters=3),
                                       lr_scheduler.ExponentialLR(optimizer, 0.9)]),
        lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3), lr_scheduler.PolynomialLR(optimizer, 4)], [4, 8])
    sequence = dict(values=follow(optimizer, nested), keys=sorted(nested.state_dict()))
    plateau = lr_scheduler.ReduceLROnPlateau(two_groups())
    plateau_keys = sorted(k for k, v in plateau.state_dict().items() if v is not None)
    restarts = []
    for mult in (1, 2):
        optimizer = two_groups()
        schedule = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3, mult)
        for epoch in (0.5, 2.25, 3, 4.75, 10, 1):
            schedule.step(epoch)
            restarts.append(rates(optimizer)[0])

    # --- averages ----------------------------------------------------------------------------------

    averages = {}
    for label, options in dict(mean={}, swa=dict(avg_fn=swa_utils.get_swa_avg_fn()),
                               swa_multi=dict(multi_avg_fn=swa_utils.get_swa_multi_avg_fn()),
                               ema=dict(avg_fn=swa_utils.get_ema_avg_fn(0.9)),
                               ema_multi=dict(multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.8)),
                               buffers=dict(use_buffers=True, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.5))).items():
        net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
        with torch.no_grad():
            for i, p in enumerate(net.parameters()):
                p.copy_(torch.arange(p.numel()).reshape(p.shape) * 0.5 - i)
        averaged = swa_utils.AveragedModel(net, **options)
        for step in range(4):
            with torch.no_grad():
                for p in net.parameters():
                    p.mul_(0.5).add_(step)
                net[1].running_mean.add_(step + 1)
                net[1].num_batches_tracked.add_(3)
            averaged.update_parameters(net)
        averages[label] = {k: v.reshape(-1).tolist() for k, v in averaged.state_dict().items()}
        averages[label + "_keys"] = list(averaged.state_dict())

    net = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 2, bias=False), torch.nn.BatchNorm1d(2))
    with torch.no_grad():
        net[1].weight.copy_(torch.tensor([[1.0, 2.0], [-0.5, 0.25]]))
    batches = [torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.5, 0.0]]) * (i + 1) for i in range(3)]
    net.eval()
    swa_utils.update_bn(batches, net)
    update_bn = {k: v.reshape(-1).tolist() for k, v in net.state_dict().items()}

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "values", "optimizers.json")
    with open(path, "w") as file:
        json.dump(dict(optimizers=optimizers, schedules=schedules, chain=chain, sequence=sequence,
                       plateau_keys=plateau_keys, restarts=restarts, averages=averages, update_bn=update_bn),
                  file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
