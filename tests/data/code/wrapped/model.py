import torch
import torch.nn as nn
import torch.nn.functional as F


class AttentionBlock(nn.Module):
    def __init__(self, embed_dim, hidden_dim, num_heads, dropout=0.0):
        super().__init__()
        self.layer_norm_1 = nn.LayerNorm(embed_dim)
        self.attn = nn.MultiheadAttention(embed_dim, num_heads, dropout=dropout)
        self.layer_norm_2 = nn.LayerNorm(embed_dim)
        self.linear = nn.Sequential(
            nn.Linear(embed_dim, hidden_dim), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(hidden_dim, embed_dim), nn.Dropout(dropout))

    def forward(self, x):
        y = self.layer_norm_1(x)
        x = x + self.attn(y, y, y)[0]
        return x + self.linear(self.layer_norm_2(x))


class Net(nn.Module):
    def __init__(self, embed_dim, hidden_dim, num_heads, num_layers=6, dropout=0.0):
        super().__init__()
        self.patches = nn.Conv2d(3, embed_dim, 4, stride=4)
        self.transformer = nn.Sequential(
            *(AttentionBlock(embed_dim, hidden_dim, num_heads, dropout=dropout)
              for _ in range(num_layers)))
        self.mlp_head = nn.Sequential(nn.LayerNorm(embed_dim), nn.Linear(embed_dim, 3))
        self.cls_token = nn.Parameter(torch.randn(1, 1, embed_dim))
        self.pos_embedding = nn.Parameter(torch.randn(1, 5, embed_dim))

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.repeat(x.shape[0], 1, 1), x], dim=1)
        x = x + self.pos_embedding
        x = x.transpose(0, 1)
        x = self.transformer(x)
        return self.mlp_head(x[0])


class Wrapper(nn.Module):
    def __init__(self, model_kwargs, lr=1e-3):
        super().__init__()
        self.model = Net(**model_kwargs)

    def forward(self, x):
        return self.model(x)


def train_model(**kwargs):
    return Wrapper(**kwargs)


def main():
    return train_model(model_kwargs={
        "embed_dim": 24,
        "hidden_dim": 32,
        "num_heads": 4,
        "num_layers": 2,
    }, lr=3e-4)
