"""A small image classifier whose last hidden layer can be used as features for a distance.

Use it for images that the Inception network is not suitable for, such as digits of 8 × 8 or
28 × 28 pixels, or if its weights are not available. Distances can be compared only if they use the
same classifier. The name of a classifier contains its seed and accuracy.
"""

from collections.abc import Iterator

import torch
from torch import Generator, Tensor, nn

from fdsm.evaluation import Measurement, mean_of, unit_range


class Classifier(nn.Module):
    """Three convolutions and two linear layers; the forward pass returns features.

    Images may have any size, because the last map is pooled to 4 × 4. The parameters are float32.

    Args:
        channels: Number of image channels.
        classes: Number of classes.
        width: Number of channels of the first layer, doubled twice.
        features: Size of the last hidden layer.
        seed: Random seed of the training, part of the name.

    Attributes:
        accuracy: Accuracy on held-out images, after training.
    """

    def __init__(
        self, channels: int, classes: int, width: int = 16, features: int = 64, seed: int = 0
    ) -> None:
        super().__init__()
        self.seed = seed
        self.accuracy: Measurement | None = None
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1),
            nn.SiLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(2 * width, 4 * width, 3, stride=2, padding=1),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Linear(64 * width, features),
            nn.SiLU(),
        )
        self.head = nn.Linear(features, classes)
        self.float()

    @property
    def name(self) -> str:
        """Name of the features in the settings of a measurement."""
        state = "untrained" if self.accuracy is None else f"accuracy {self.accuracy.value:.4f}"
        return f"classifier, seed {self.seed}, {state}"

    def forward(self, images: Tensor) -> Tensor:
        """Return the last hidden layer, `(B, C, H, W) -> (B, features)`."""
        features: Tensor = self.body(unit_range(images).to(self.head.weight))
        return features

    def logits(self, images: Tensor) -> Tensor:
        """Return the unnormalized log-probabilities of the classes, `(B, classes)`."""
        logits: Tensor = self.head(self(images))
        return logits


def train_classifier(
    images: Tensor,
    labels: Tensor,
    *,
    seed: int = 0,
    epochs: int = 5,
    batch: int = 64,
    held_out: float = 0.1,
    width: int = 16,
    features: int = 64,
) -> Classifier:
    """Train a classifier with Adam and a one-cycle learning rate schedule.

    All random numbers come from the seed, so the same call on the same machine gives the same
    classifier. The global generator of torch is not changed.

    Args:
        images: Images, shape `(N, C, H, W)`, uint8 or from 0 to 1.
        labels: Class indices, shape `(N,)`.
        seed: Random seed of the initial weights, the held-out images and the order.
        epochs: Number of epochs.
        batch: Number of images per iteration.
        held_out: Fraction of the images on which the accuracy is measured.
        width: Number of channels of the first layer.
        features: Size of the last hidden layer.

    Returns:
        The classifier in evaluation mode, without gradients, and with its accuracy.

    Raises:
        ValueError: If labels and images do not match, or there are no images for training or for
            the accuracy.
    """
    count = round(len(images) * (1 - held_out))
    if images.ndim != 4 or labels.shape != images.shape[:1] or not 0 < count < len(images):
        raise ValueError(
            "expected images of shape (N, C, H, W), labels of shape (N,) and a fraction of held-"
            f"out images, but got {tuple(images.shape)}, {tuple(labels.shape)} and {held_out}"
        )
    generator = Generator().manual_seed(seed)
    shuffled = torch.randperm(len(images), generator=generator)
    train, test = shuffled[:count], shuffled[count:]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Classifier(images.shape[1], int(labels.max()) + 1, width, features, seed)
    model.to(images.device)
    order = [
        part
        for _ in range(epochs)
        for part in torch.split(train[torch.randperm(count, generator=generator)], batch)
    ]
    _fit(model, ((images[part], labels[part].long()) for part in order), len(order))
    model.eval().requires_grad_(False)
    guesses = torch.cat([model.logits(images[part]).argmax(1) for part in torch.split(test, 1024)])
    model.accuracy = mean_of((guesses == labels[test]).double(), epochs=epochs, trained_on=count)
    return model


def _fit(model: Classifier, batches: Iterator[tuple[Tensor, Tensor]], steps: int) -> None:
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    for images, labels in batches:
        optimizer.zero_grad()
        torch.autograd.backward(nn.functional.cross_entropy(model.logits(images), labels))
        optimizer.step()
        schedule.step()
