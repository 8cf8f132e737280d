"""A CNN in PyTorch with dropout, crops, AdamW, a cosine schedule, batches of 64."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.drop = nn.Dropout(0.25)
        self.head = nn.Linear(32 * 49, 10)

    def forward(self, x):
        return self.head(self.drop(self.features(x).flatten(1)))


def crop(x, generator):
    padded = F.pad(x, (2, 2, 2, 2))
    i, j = torch.randint(0, 5, (2,), generator=generator).tolist()
    return padded[:, :, i : i + 28, j : j + 28]


def train(images, labels, seed: int):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    x = torch.as_tensor(images, dtype=torch.float32).permute(0, 3, 1, 2)
    loader = DataLoader(
        TensorDataset(x, torch.as_tensor(labels, dtype=torch.long)),
        batch_size=64,
        shuffle=True,
        generator=generator,
    )
    model = Net()
    epochs = 6
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer, epochs * len(loader)
    )
    model.train()
    for epoch in range(epochs):
        for batch, target in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(crop(batch, generator)), target).backward()
            optimizer.step()
            schedule.step()
        print("epoch", epoch)
    return model


def predict(model, images):
    model.eval()
    with torch.no_grad():
        return model(
            torch.as_tensor(images, dtype=torch.float32).permute(0, 3, 1, 2)
        ).numpy()
