# scripts/gpu_check/models_torch.py: what models.lua measures, with PyTorch, by the same names.
import sys

from speed_torch import result, seconds, torch

sys.argv = ["bench_models_torch.py", "8"]
torch.set_default_device("cuda")
import bench_models_torch as models  # noqa: E402  (after what it reads)


def captured(step):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


for make in ("mlp", "lenet", "resnet", "lstm", "gpt", "vit", "diffusion"):
    torch.manual_seed(1)
    name, optimizer, step, _ = getattr(models, make)()
    for group in optimizer.param_groups:
        if "capturable" in group:
            group["capturable"] = True
    result(name + ", step", 1e6 * seconds(step, 20), "us")
    try:
        graph = captured(step)
    except RuntimeError as error:
        print(f"{name}: no graph: {error}")
        continue
    result(name + ", captured step", 1e6 * seconds(graph.replay, 20), "us")
