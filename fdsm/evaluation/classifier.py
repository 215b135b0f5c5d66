"""A small classifier of one's own, whose last hidden layer serves as features for a distance.

For images that the Inception network was not made for, such as digits of 8 × 8 or 28 × 28
pixels, or where its weights are not at hand. Distances by such features compare only with
distances by the same file: its name holds seed and accuracy.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Generator, Tensor, nn

from ..atomic_io import replace_file
from .fid import unit_range
from .measurement import Measurement, mean_of


@dataclass(frozen=True)
class Design:
    """The size of a classifier.

    Attributes:
        channels: Of the images.
        classes: How many there are.
        width: Channels of the first layer; doubled twice.
        features: Size of the last hidden layer.
    """

    channels: int
    classes: int
    width: int = 16
    features: int = 64


class Classifier(nn.Module):
    """Three convolutions and two linear layers; called on images, it returns features.

    Images of any size will do, as the last map is averaged to 4 × 4. The parameters are
    float32 whatever torch's default is.

    Attributes:
        design: Its size.
        seed: Of its training.
        accuracy: On the part of the data that was held out, once trained.
    """

    def __init__(self, design: Design, seed: int, accuracy: Measurement | None = None) -> None:
        super().__init__()
        self.design, self.seed, self.accuracy = design, seed, accuracy
        c, w = design.channels, design.width
        self.body = nn.Sequential(
            nn.Conv2d(c, w, 3, padding=1),
            nn.SiLU(),
            nn.Conv2d(w, 2 * w, 3, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(2 * w, 4 * w, 3, stride=2, padding=1),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Linear(64 * w, design.features),
            nn.SiLU(),
        )
        self.head = nn.Linear(design.features, design.classes)
        self.float()

    @property
    def name(self) -> str:
        """What goes on record with a distance."""
        seen = "untrained" if self.accuracy is None else f"accuracy {self.accuracy.value:.4f}"
        return f"classifier, seed {self.seed}, {seen}"

    def forward(self, images: Tensor) -> Tensor:
        """Return the last hidden layer, `(B, C, H, W) -> (B, features)`."""
        features: Tensor = self.body(unit_range(images).to(self.head.weight))
        return features

    def logits(self, images: Tensor) -> Tensor:
        """Return the unnormalised log-probabilities of the classes, `(B, classes)`."""
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
    """Train a classifier by Adam with one cycle of the learning rate.

    Everything random comes from the seed, so on one machine the same call gives the same
    classifier. Torch's global generator is left alone.

    Args:
        images: Shape `(N, C, H, W)`, uint8 or from 0 to 1.
        labels: Whole numbers from 0, shape `(N,)`.
        seed: Of the initial weights, the part held out and the order.
        epochs: Passes over the data.
        batch: Images per iteration.
        held_out: The share of the images on which the accuracy is measured instead.
        width: Channels of the first layer.
        features: Size of the last hidden layer.

    Returns:
        The classifier in evaluation mode and without gradients, its accuracy on record.

    Raises:
        ValueError: If there is not a label for each image, or nothing to train on or to hold out.
    """
    kept = round(len(images) * (1 - held_out))
    if images.ndim != 4 or labels.shape != images.shape[:1] or not 0 < kept < len(images):
        raise ValueError(
            "expected images of shape (N, C, H, W), labels of shape (N,) and a part of them held "
            f"out, but got {tuple(images.shape)}, {tuple(labels.shape)} and a share of {held_out}"
        )
    generator = Generator().manual_seed(seed)
    shuffled = torch.randperm(len(images), generator=generator)
    train, test = shuffled[:kept], shuffled[kept:]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        classes = int(labels.max()) + 1
        model = Classifier(Design(images.shape[1], classes, width, features), seed)
    model.to(images.device)
    order = [
        part
        for _ in range(epochs)
        for part in torch.split(train[torch.randperm(kept, generator=generator)], batch)
    ]
    _fit(model, ((images[part], labels[part].long()) for part in order), len(order))
    model.eval().requires_grad_(False)
    guesses = torch.cat([model.logits(images[part]).argmax(1) for part in torch.split(test, 1024)])
    model.accuracy = mean_of((guesses == labels[test]).double(), epochs=epochs, trained_on=kept)
    return model


def save_classifier(model: Classifier, path: Path) -> None:
    """Write a classifier to a safetensors file, with its design, seed and accuracy.

    Args:
        model: What to keep.
        path: The file to make or replace.
    """
    from safetensors.torch import save_file

    about = {"design": asdict(model.design), "seed": model.seed}
    if model.accuracy is not None:
        about["accuracy"] = asdict(model.accuracy)
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    with replace_file(Path(path)) as draft:
        save_file(state, draft, metadata={"classifier": json.dumps(about)})


def load_classifier(path: Path) -> Classifier:
    """Return the classifier in a file that `save_classifier` wrote.

    Args:
        path: The file.

    Returns:
        The classifier in evaluation mode and without gradients, on the CPU.

    Raises:
        ValueError: If the file holds something else.
    """
    from safetensors import safe_open

    with safe_open(str(path), framework="pt") as file:
        about = (file.metadata() or {}).get("classifier")
        if about is None:
            raise ValueError(f"{path} is no classifier: write one with save_classifier")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    kept = json.loads(about)
    accuracy = Measurement(**kept["accuracy"]) if "accuracy" in kept else None
    model = Classifier(Design(**kept["design"]), kept["seed"], accuracy)
    model.load_state_dict(state)
    return model.eval().requires_grad_(False)


def _fit(model: Classifier, batches: Iterator[tuple[Tensor, Tensor]], steps: int) -> None:
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    for images, labels in batches:
        optimizer.zero_grad()
        torch.autograd.backward(nn.functional.cross_entropy(model.logits(images), labels))
        optimizer.step()
        schedule.step()
