import torch
import torch.nn as nn
import torch.nn.functional as F


class Residual(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x, **kwargs):
        return x + self.fn(x, **kwargs)

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


class MLP(nn.Sequential):
    def __init__(self, dim, ratio=2):
        super().__init__(nn.Linear(dim, ratio * dim), nn.ReLU(), nn.Linear(ratio * dim, dim))


class Block(nn.Sequential):
    def __init__(self, dim=24, n_heads=3, **kwargs):
        super().__init__(
            Residual(nn.Sequential(nn.LayerNorm(dim), Attention(dim, n_heads))),
            Residual(nn.Sequential(nn.LayerNorm(dim), MLP(dim, **kwargs))),
        )


class Encoder(nn.Sequential):
    def __init__(self, depth=2, **kwargs):
        super().__init__(*[Block(**kwargs) for _ in range(depth)])


class ViT(nn.Module):
    def __init__(self, dim=24, depth=2, **kwargs):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, kernel_size=4, stride=4)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.positions = nn.Parameter(torch.zeros(1, 5, dim))
        self.blocks = Encoder(depth, dim=dim, **kwargs)
        self.last = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 3)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        x = self.head(self.last(x)[:, 0])
        return x


net = ViT(n_heads=6, ratio=3)
