import torch
import torch.nn as nn
import torch.nn.functional as F

HEADS = 4
WIDTH = 6 * HEADS   # a comment (with a bracket


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(3, WIDTH, 4, 4)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.zeros(1, 5, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, dim_feedforward=32, activation="gelu",
                                           norm_first=True, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.positions
        return self.head(self.encoder(x)[:, 0])
