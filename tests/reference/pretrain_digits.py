# tests/reference/pretrain_digits.py: trains the network of scripts/finetune.lua in PyTorch to tell
# the digits 0 to 4 apart. Needs PyTorch; run by hand.
#   pretrain_digits.py             writes scripts/data/digits-0-to-4.safetensors
#   pretrain_digits.py MOONLET     runs scripts/finetune.lua and checks that PyTorch reads the
#                                  weights it saves and gets the same share of digits right
import csv
import os
import subprocess
import sys
import tempfile

import torch
from torch import nn

from torch_weights import read, write

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts")
KNOWN = 5
TEST_IMAGES = 360


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten())
        self.head = nn.Linear(32 * 4 * 4, classes)

    def forward(self, images):
        return self.head(self.body(images))


def load_digits():
    with open(os.path.join(SCRIPTS, "data", "digits.csv")) as file:
        rows = torch.tensor([[float(field) for field in row] for row in csv.reader(file)])
    images, digits = rows[:, :64].reshape(-1, 1, 8, 8) / 16, rows[:, 64].long()
    return (images[:-TEST_IMAGES], digits[:-TEST_IMAGES]), (images[-TEST_IMAGES:], digits[-TEST_IMAGES:])


def accuracy(net, images, digits):
    with torch.no_grad():
        return (net.eval()(images).argmax(1) == digits).float().mean().item()


def of_known(images, digits):
    return images[digits < KNOWN], digits[digits < KNOWN]


def make():
    torch.manual_seed(1)
    train_set, test_set = load_digits()
    images, digits = of_known(*train_set)
    net = Net(KNOWN)
    adam = torch.optim.Adam(net.parameters(), lr=0.003)
    for _ in range(15):
        net.train()
        for rows in torch.randperm(len(images)).split(32):
            adam.zero_grad()
            nn.functional.cross_entropy(net(images[rows]), digits[rows]).backward()
            adam.step()
    write(os.path.join(SCRIPTS, "data", "digits-0-to-4.safetensors"), net.state_dict())
    print(f"accuracy for the digits 0 to 4: {accuracy(net, *of_known(*test_set)):.4f}")


def check(moonlet):
    _, test_set = load_digits()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.safetensors")
        text = subprocess.run([moonlet, os.path.join(SCRIPTS, "finetune.lua"), "--out", path],
                              check=True, capture_output=True, text=True).stdout
        net = Net(10)
        net.load_state_dict(read(path), strict=True)
    got = f"{100 * accuracy(net, *test_set):.1f}%"
    assert f"All weights trained: {got}" in text, (got, text)
    print(f"PyTorch reads what Moonlet saved, and gets {got} right too")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        check(sys.argv[1])
    else:
        make()
