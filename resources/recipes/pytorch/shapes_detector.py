"""An object detector without anchors (after FCOS, Tian et al. 2019) on made pictures of rectangles and ellipses.

The pictures have different numbers of objects, so `collate` makes the batches. `training_step` returns the loss and its
two parts, `validation_step` measures the detections.
"""

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, max_pool2d, softplus
from torch.utils.data import Dataset

KINDS = 2  # rectangle, ellipse
SIZE = 32  # pixels of a picture's side
CELL = 4  # pixels of a cell's side: the network looks at 8 x 8 cells


class Pictures(Dataset):
    """Pictures (3, 32, 32) with one to three objects: their boxes (objects, 4) and their kinds (objects,)."""

    def __init__(self, items, seed):
        self.items, self.seed = items, seed

    def __len__(self):
        return self.items

    def __getitem__(self, index):
        random = torch.Generator().manual_seed(self.seed * 1_000_003 + index)  # the same picture at each visit
        picture = 0.1 * torch.randn(3, SIZE, SIZE, generator=random)
        objects = int(torch.randint(1, 4, (), generator=random))
        boxes = [self.draw(picture, random) for _ in range(objects)]
        kinds = torch.tensor([kind for _, kind in boxes])
        return {"picture": picture, "boxes": torch.stack([box for box, _ in boxes]), "kinds": kinds}

    @staticmethod
    def draw(picture, random):
        """Draw an object in a random colour. Return its box (left, top, right, bottom), in pixels, and its kind."""
        width, height = torch.randint(8, 17, (2,), generator=random).tolist()
        left = int(torch.randint(SIZE - width, (), generator=random))
        top = int(torch.randint(SIZE - height, (), generator=random))
        kind = int(torch.randint(KINDS, (), generator=random))
        colour = 0.4 + 0.6 * torch.rand(3, 1, 1, generator=random)
        x = (torch.arange(width) + 0.5) / width * 2 - 1
        y = (torch.arange(height) + 0.5) / height * 2 - 1
        inside = torch.ones(height, width, dtype=torch.bool) if kind == 0 else y[:, None] ** 2 + x**2 < 1
        there = picture[:, top : top + height, left : left + width]
        there[:] = torch.where(inside, colour, there)
        return torch.tensor([left, top, left + width, top + height], dtype=torch.float32), kind


class Detector(nn.Module):
    """Says for each cell which kind of object its centre lies in, and how far the object's edges are from there."""

    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1, stride=2),
            nn.GELU(),
            nn.Conv2d(width, 2 * width, 3, padding=1, stride=2),
            nn.GELU(),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1),
            nn.GELU(),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1),
            nn.GELU(),
        )
        self.kinds = nn.Conv2d(2 * width, KINDS, 1)
        self.edges = nn.Conv2d(2 * width, 4, 1)
        nn.init.constant_(self.kinds.bias, -2.0)  # most cells are empty

    def forward(self, pictures):
        """Return logits (items, kinds, cells, cells) and boxes (items, cells, cells, 4), in pixels."""
        seen = self.body(pictures)
        edges = CELL * softplus(self.edges(seen)).permute(0, 2, 3, 1)
        x, y = centres(pictures.device)
        boxes = torch.stack([x - edges[..., 0], y - edges[..., 1], x + edges[..., 2], y + edges[..., 3]], dim=-1)
        return self.kinds(seen), boxes


def centres(device):
    """Return x and y of the centres of all cells, each (cells, cells)."""
    middle = CELL * (torch.arange(SIZE // CELL, device=device) + 0.5)
    return middle.expand(len(middle), -1), middle[:, None].expand(-1, len(middle))


def overlap(boxes, others):
    """Return intersection over union (...,) of boxes (..., 4)."""
    low = torch.maximum(boxes[..., :2], others[..., :2])
    high = torch.minimum(boxes[..., 2:], others[..., 2:])
    shared = (high - low).clamp(min=0).prod(dim=-1)
    areas = [(each[..., 2:] - each[..., :2]).prod(dim=-1) for each in (boxes, others)]
    return shared / (areas[0] + areas[1] - shared)


def model(width=16):
    return Detector(width)


def train_data(items=1_000):
    return Pictures(items, seed=1)


def val_data(val_items=200):
    return Pictures(val_items, seed=2)


def collate(items):
    # Pictures have the same size and are stacked. Boxes and kinds stay in lists, one tensor for each picture.
    return {
        "pictures": torch.stack([each["picture"] for each in items]),
        "boxes": [each["boxes"] for each in items],
        "kinds": [each["kinds"] for each in items],
    }


def targets(boxes):
    """Return for each cell the number of the smallest object that its centre lies in, and whether there is one."""
    x, y = centres(boxes.device)
    left, top, right, bottom = (edge[:, None, None] for edge in boxes.unbind(dim=1))
    inside = (left < x) & (x < right) & (top < y) & (y < bottom)
    areas = ((right - left) * (bottom - top)).expand(inside.shape)
    smallest = torch.where(inside, areas, torch.inf).argmin(dim=0)
    return smallest, inside.any(dim=0)


def training_step(model, batch, box_weight=2.0):
    """Return the loss and its two parts. Every picture counts the same, however many objects it has.

    The loss of a batch is therefore the mean over its pictures, and stays so when the batch is divided over devices.
    """
    logits, boxes = model(batch["pictures"])
    kind_losses, box_losses = [], []
    for number, (true_boxes, true_kinds) in enumerate(zip(batch["boxes"], batch["kinds"], strict=True)):
        smallest, occupied = targets(true_boxes)
        wanted = torch.zeros_like(logits[number])
        wanted.scatter_(0, true_kinds[smallest][None], 1.0).mul_(occupied)
        kind_losses.append(binary_cross_entropy_with_logits(logits[number], wanted))
        box_losses.append((1 - overlap(boxes[number][occupied], true_boxes[smallest[occupied]])).mean())
    kind_loss, box_loss = torch.stack(kind_losses).mean(), torch.stack(box_losses).mean()
    return {"loss": kind_loss + box_weight * box_loss, "kind_loss": kind_loss, "box_loss": box_loss}


def detections(logits, boxes, threshold):
    """Return boxes and kinds that are more likely than `threshold`, and likelier than those of the cells around."""
    scores = logits.sigmoid()
    peaks = (scores == max_pool2d(scores[None], 3, stride=1, padding=1)[0]) & (scores > threshold)
    kinds, row, column = peaks.nonzero(as_tuple=True)
    return boxes[row, column], kinds


def validation_step(model, batch, threshold=0.3):
    """Return the loss, and how well the best detection of its kind covers each object: the mean overlap, 0 if none."""
    logits, boxes = model(batch["pictures"])
    covered = []
    for number, (true_boxes, true_kinds) in enumerate(zip(batch["boxes"], batch["kinds"], strict=True)):
        found, kinds = detections(logits[number], boxes[number], threshold)
        overlaps = overlap(true_boxes[:, None], found[None]) * (true_kinds[:, None] == kinds)
        covered.append(overlaps.amax(dim=1).mean() if len(found) else overlaps.new_zeros(()))
    measured = training_step(model, batch)
    return {**measured, "mean_iou": torch.stack(covered).mean()}


def optimizer(params, learning_rate=2e-3):
    return torch.optim.Adam(params, lr=learning_rate)
