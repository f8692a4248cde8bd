"""tests/fuzz/library_optim.py: draws an optimiser or a schedule of PyTorch with its options, for
torch_library.py. A draw that PyTorch refuses is drawn anew there."""
import random

import make_optimizers
from make_optimizers import optimizer_case, schedule_case

pick, chance = random.choice, lambda p: random.random() < p
number = lambda low, high: round(random.uniform(low, high), 4)


def betas():
    return (number(0, 0.95), number(0.5, 0.999))


# What each optimiser may be given; a function draws a value.
OPTIONS = {
    "SGD": dict(momentum=lambda: number(0, 0.95), dampening=lambda: number(0, 0.9), nesterov=lambda: chance(0.5)),
    "Adam": dict(betas=betas, eps=lambda: pick([1e-8, 1e-4, 0.1]), amsgrad=lambda: chance(0.5),
                 decoupled_weight_decay=lambda: chance(0.5)),
    "AdamW": dict(betas=betas, eps=lambda: pick([1e-8, 1e-4, 0.1]), amsgrad=lambda: chance(0.5)),
    "Adagrad": dict(lr_decay=lambda: number(0, 0.5), initial_accumulator_value=lambda: number(0, 1), eps=lambda: pick([1e-10, 1e-3])),
    "Adadelta": dict(rho=lambda: number(0.1, 0.99), eps=lambda: pick([1e-6, 1e-2])),
    "Adamax": dict(betas=betas, eps=lambda: pick([1e-8, 1e-2])),
    "NAdam": dict(betas=betas, eps=lambda: pick([1e-8, 1e-2]), momentum_decay=lambda: number(0, 0.2),
                  decoupled_weight_decay=lambda: chance(0.5)),
    "RAdam": dict(betas=betas, eps=lambda: pick([1e-8, 1e-2]), decoupled_weight_decay=lambda: chance(0.5)),
    "ASGD": dict(lambd=lambda: number(0, 0.2), alpha=lambda: number(0.3, 0.9), t0=lambda: pick([0, 2, 5, 1e6])),
    "RMSprop": dict(alpha=lambda: number(0.1, 0.99), eps=lambda: pick([1e-8, 1e-2]), momentum=lambda: number(0, 0.9),
                    centered=lambda: chance(0.5)),
    "Rprop": dict(etas=lambda: (number(0.2, 0.9), number(1.05, 2)), step_sizes=lambda: (1e-4, number(0.1, 1))),
    "Adafactor": dict(beta2_decay=lambda: -number(0.3, 1), d=lambda: number(0.5, 2)),
    "Muon": dict(momentum=lambda: number(0, 0.95), nesterov=lambda: chance(0.5), ns_steps=lambda: random.randint(1, 5),
                 adjust_lr_fn=lambda: pick(["original", "match_rms_adamw"])),
    "LBFGS": dict(history_size=lambda: random.randint(1, 4),
                  line_search_fn=lambda: pick([None, "strong_wolfe"])),
}

# Of steps 1, 5 and 10 those that are compared, in float64 alone: each iteration of LBFGS about doubles a
# difference in rounding, Muon computes in bfloat16, and centred RMSprop divides by the root of a difference
# that may be near zero.
KEPT_TRACES = {"LBFGS": 2, "Muon": 1, "RMSprop": 3}


def optimizer():
    """A case of an optimiser, or None where PyTorch refuses the options."""
    name = pick(sorted(OPTIONS))
    options = {"lr": number(0.001, 0.1)}
    if name != "LBFGS":
        for key, draw in (("weight_decay", lambda: number(0, 0.3)), ("maximize", lambda: chance(0.5))):
            if chance(0.4):
                options[key] = draw()
        for key in {"Muon": ["maximize"], "Rprop": ["weight_decay"]}.get(name, []):
            options.pop(key, None)
    else:
        options["max_iter"] = random.randint(1, 4)
    for key, draw in OPTIONS[name].items():
        if chance(0.5):
            options[key] = draw()
    options = {k: v for k, v in options.items() if v is not None}
    try:
        case = optimizer_case(name, options)
    except (RuntimeError, ValueError):
        return None
    if name in KEPT_TRACES and options.get("centered", True):
        case["float32"], case["float64"] = [], case["float64"][:KEPT_TRACES[name]]
    finite = all(abs(v) < 1e6 for dtype in ("float32", "float64") for trace in case[dtype] for v in trace)
    return case if finite else None


factor = make_optimizers.f
SCHEDULES = {
    "StepLR": lambda: dict(step_size=random.randint(1, 6), gamma=number(0.1, 1.2)),
    "MultiStepLR": lambda: dict(milestones=sorted(random.randint(1, 12) for _ in range(random.randint(1, 4))), gamma=number(0.1, 1.2)),
    "ConstantLR": lambda: dict(factor=number(0, 1), total_iters=random.randint(0, 8)),
    "LinearLR": lambda: dict(start_factor=number(0.05, 1), end_factor=number(0, 1), total_iters=random.randint(1, 8)),
    "ExponentialLR": lambda: dict(gamma=number(0.5, 1.1)),
    "PolynomialLR": lambda: dict(total_iters=random.randint(1, 10), power=number(0.5, 3)),
    "CosineAnnealingLR": lambda: dict(T_max=random.randint(1, 10), eta_min=number(0, 0.05)),
    "CosineAnnealingWarmRestarts": lambda: dict(T_0=random.randint(1, 5), T_mult=random.randint(1, 3), eta_min=number(0, 0.05)),
    "LambdaLR": lambda: dict(lr_lambda=factor),
    "MultiplicativeLR": lambda: dict(lr_lambda=factor),
    "CyclicLR": lambda: dict(base_lr=number(0.001, 0.05), max_lr=number(0.06, 0.5), step_size_up=random.randint(1, 5),
                             step_size_down=random.randint(1, 5), mode=pick(["triangular", "triangular2", "exp_range"]),
                             gamma=number(0.8, 1), cycle_momentum=chance(0.7)),
    "OneCycleLR": lambda: dict(max_lr=number(0.05, 1), total_steps=random.randint(14, 30), pct_start=number(0.2, 0.5),
                               anneal_strategy=pick(["cos", "linear"]), cycle_momentum=chance(0.7),
                               div_factor=number(2, 30), final_div_factor=number(10, 1e4), three_phase=chance(0.4)),
    "SWALR": lambda: dict(swa_lr=number(0.01, 0.5), anneal_epochs=random.randint(0, 8), anneal_strategy=pick(["cos", "linear"])),
}


def schedule():
    """A case of a schedule, or None where PyTorch refuses the options."""
    name = pick(sorted(SCHEDULES))
    kind = pick(["SGD", "Adam"]) if name in ("CyclicLR", "OneCycleLR") else "SGD"
    try:
        return schedule_case(name, SCHEDULES[name](), kind)
    except (RuntimeError, ValueError, ZeroDivisionError):
        return None
