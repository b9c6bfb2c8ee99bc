import torch
import torch.nn as nn
import torch.nn.functional as F
from .parts import block
from .parts.block import Block


class ViT(nn.Module):
    def __init__(self, dim=24, depth=2, heads=8):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, kernel_size=4, stride=4)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.positions = nn.Parameter(torch.zeros(1, 5, dim))
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(depth)])
        self.last = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 3)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        x = self.head(self.last(x)[:, 0])
        return x

if __name__ == "__main__":
    net = ViT(24, heads=4)   # as trained
    print(net)
