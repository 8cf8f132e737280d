"""Audit a CNN in PyTorch on MNIST, written as its tutorial writes it.

    informed audit examples/audit_torch.py:train --data mnist --fixed 300 --targets 5 \\
        --minutes 14 --out audit.html
"""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import informed


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, stride=2)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2)
        self.dropout = nn.Dropout(0.25)
        self.fc1 = nn.Linear(576, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = functional.relu(self.conv2(functional.relu(self.conv1(x))))
        x = functional.relu(self.fc1(self.dropout(torch.flatten(x, 1))))
        return functional.log_softmax(self.fc2(x), dim=1)


def train(images, labels, seed: int):
    torch.manual_seed(seed)  # initialisation, dropout and the order of the loader
    data = TensorDataset(nchw(images), torch.as_tensor(labels, dtype=torch.long))
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    model.train()
    for _ in range(4):
        for batch, target in DataLoader(data, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            functional.nll_loss(model(batch), target).backward()
            optimizer.step()
    return model


def nchw(images):
    return torch.as_tensor(images, dtype=torch.float32).permute(0, 3, 1, 2)


def predict(model, images):
    model.eval()
    with torch.no_grad():
        return model(nchw(images)).numpy()


def main(minutes=14.0, targets=5):
    return informed.audit(train, "mnist", predict=predict, fixed=300,
                          targets=targets, minutes=minutes)  # fmt: skip


if __name__ == "__main__":
    print(main().save("audit_torch.html"))
