"""What a training step of the standard CNN of the forced-rendering study costs on a CPU, and what made it cheaper.

Run it with one thread, OMP_NUM_THREADS=1 python benchmarks/rendering.py: the times are of the processor, not of the
clock, so that other work on the machine changes them little. Each is the least of several repeats, in milliseconds.
"""

import time

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recombine.curated import DataSettings, make_data, make_plane
from recombine.encodings import Encoding, PopulationEncoding
from recombine.generators.rendering import Rendering
from recombine.nets.decoders import build_decoder
from recombine.nets.decoders.cnn import CNNSettings
from recombine.training import Trainer, TrainingSettings
from recombine.worlds.bumps import Bumps, BumpsSettings
from recombine.worlds.supports import DonutSupport, support_mask

BATCH, REPEATS = 32, 7


def least(what, repeats=REPEATS):
    """Milliseconds of processor time, the least of `repeats` after two that warm up."""
    what(), what()
    times = []
    for _ in range(repeats):
        begun = time.process_time()
        what()
        times.append(1e3 * (time.process_time() - begun))
    return min(times)


def plain_step(dtype: torch.dtype, layout: torch.memory_format):
    """The published network in torch's own modules and AdamW, one seed: what is compared with."""
    torch.manual_seed(0)
    layers = [nn.ConvTranspose2d(56, 64, 7), *(nn.ConvTranspose2d(64, 64, 4, 2, 1) for _ in range(2))]
    layers += [nn.Conv2d(64, 64, 3, 1, 1) for _ in range(2)]
    hidden = [part for layer in layers for part in (layer, nn.ReLU())]
    model = nn.Sequential(*hidden, nn.Conv2d(64, 1, 3, 1, 1))
    model = model.to(memory_format=layout)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    code, images = torch.rand(BATCH, 56, 1, 1), torch.rand(BATCH, 1, 28, 28)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            loss = F.mse_loss(model(code.to(memory_format=layout)).float(), images)
        loss.backward()
        optimizer.step()

    return step


def our_step(precision: str, members: int, grouped: bool):
    world = Bumps(BumpsSettings())
    plane = make_plane(world, torch.from_numpy(support_mask(DonutSupport(), 28)).flatten())
    code = Encoding(PopulationEncoding(), (28, 28))
    seeds = tuple(range(members))
    data = make_data(DataSettings(), world, plane, code, seeds, 1000)
    decoder = build_decoder(CNNSettings(), code.widths, 28, seeds)
    if grouped:
        decoder.run = lambda code, kept: decoder._some(code, slice(0, len(code)), kept)  # type: ignore[method-assign]
    settings = TrainingSettings(
        steps=1000, batch=BATCH, rate=1e-3, warmup=0, clip=None, ema_width=None, precision=precision
    )
    trainer = Trainer(Rendering(decoder, seeds), data, settings)
    return lambda: trainer.run(1)


def one_layer(name: str, dtype: torch.dtype, members: int) -> float:
    """Forward and backward of a 3 x 3 layer of 64 channels at 28 x 28, all members."""

    def leaf(*shape: int) -> Tensor:
        return torch.randn(*shape).to(dtype).requires_grad_()

    last = torch.channels_last
    if name == "grouped":
        x = leaf(BATCH, members * 64, 28, 28).detach().to(memory_format=last).requires_grad_()
        w, g = leaf(members * 64, 64, 3, 3), torch.randn_like(x)
        return least(lambda: F.conv2d(x, w, padding=1, groups=members).backward(g))
    if name == "one by one":
        xs = [leaf(BATCH, 64, 28, 28).detach().to(memory_format=last).requires_grad_() for _ in range(members)]
        ws = [leaf(64, 64, 3, 3) for _ in range(members)]
        g = torch.randn_like(xs[0])
        return least(lambda: [F.conv2d(x, w, padding=1).backward(g) for x, w in zip(xs, ws, strict=True)])
    x, w = leaf(members, BATCH, 30, 30, 64), leaf(members, 576, 64)
    g = torch.randn(members, BATCH * 784, 64).to(dtype)

    def product() -> None:
        columns = x.unfold(2, 28, 1).unfold(3, 28, 1).permute(0, 1, 5, 6, 2, 3, 4)
        torch.bmm(columns.reshape(members, BATCH * 784, 576), w).backward(g)

    return least(product)


def main() -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread(s); milliseconds of processor time")
    for layout in (torch.contiguous_format, torch.channels_last):
        for dtype in (torch.float32, torch.bfloat16):
            print(f"plain torch modules, {layout}, {dtype}: {least(plain_step(dtype, layout)):.0f}", flush=True)
    for precision in ("float32", "bfloat16"):
        print(f"ours, one member, {precision}: {least(our_step(precision, 1, False)):.0f}", flush=True)
        for grouped in (False, True):
            how = "grouped" if grouped else "one by one"
            took = least(our_step(precision, 4, grouped), 4)
            print(f"ours, four members {how}, {precision}: {took:.0f} ({took / 4:.0f} each)", flush=True)
    for dtype in (torch.float32, torch.bfloat16):
        for name in ("grouped", "one by one", "product"):
            print(f"one 3 x 3 layer, four members, {name}, {dtype}: {one_layer(name, dtype, 4):.0f}", flush=True)


if __name__ == "__main__":
    main()
