import torch
import torch.nn as nn
import torch.nn.functional as F
from dataclasses import dataclass


@dataclass
class Config:
    dim: int = 24
    depth: int = 2
    num_of_heads: int = 6


def gelu(x):
    """The form of many old programs."""
    return 0.5 * x * (1 + torch.tanh((2 / 3.141592653589793) ** 0.5 * (x + 0.044715 * x ** 3)))


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        a = (q @ k.transpose(-2, -1)) / (C // self.heads) ** 0.5
        return self.proj((a.softmax(dim=-1) @ v).transpose(1, 2).reshape(B, N, C))

class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        dim = config.dim
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(config.dim, config.num_of_heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Linear(dim, 40)
        self.back = nn.Linear(40, dim)

    def forward(self, x):
        x = self.norm1(x + self.attn(x))
        return self.norm2(x + self.back(gelu(self.mlp(x))))

class ViT(nn.Module):
    def __init__(self, config):
        super().__init__()
        dim = config.dim
        self.embed = nn.Conv2d(3, dim, kernel_size=4, stride=4)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.positions = nn.Parameter(torch.zeros(1, 5, dim))
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.depth)])
        self.last = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 3)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        x = self.head(self.last(x)[:, 0])
        return x
