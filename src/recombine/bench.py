"""How fast members train, against a plain PyTorch loop on the same machine in the same run.

The plain loop is what one would write first: ordinary modules, one seed, bf16 autocast on a GPU, torch's AdamW and
gradient clipping, averaged weights by a Python loop. It is honest code: the data are on the device, nothing waits for
the device, and the model is the same DiT (flow matching) with as many numbers in it.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recombine.conditioning import ConditioningSettings
from recombine.errors import UserError
from recombine.generators import TokenShape, build_generator
from recombine.generators.dit import DiTSettings
from recombine.nets.backbone import SIZES, Dimensions, grid_positions, sinusoid
from recombine.out_of_memory import FULL, ran_out
from recombine.peak_memory import begin_peak, peak_gib
from recombine.training import Trainer, TrainingData, TrainingSettings
from recombine.worlds import Shapes2D, Shapes2DSettings

CHANNELS = 16


@dataclass(frozen=True)
class Case:
    """What is timed."""

    size: str
    members: int
    side: int  # tokens a side
    batch: int  # per member
    width: int | None = None  # another than the size's, with heads as wide
    images: int = 4000  # of data

    @property
    def tokens(self) -> int:
        return self.side**2

    @property
    def dimensions(self) -> Dimensions:
        own = SIZES[self.size]
        if self.width is None:
            return own
        return Dimensions(own.depth, self.width, self.width * own.heads // own.width)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    size: str
    members: int
    tokens: int
    batch: int
    milliseconds: float  # of one step of all members
    plain_milliseconds: float  # of one step of the plain loop's one seed
    ratio: float  # seed-steps per second, over the plain loop's
    solo_ratio: float  # and over our own with one member
    tflops: float
    peak_share: float  # of the machine's own rate for a large matrix product
    peak_tflops: float
    memory_gib: float | None  # at most in use, while our members train; on a CPU by the whole process
    start_seconds: float  # from building the members to the first replayed step
    device: str
    commit: str
    torch: str = ""  # its version; earlier code did not write it down, nor the next
    plain: str = ""  # what the plain loop is


def _plain(gpu: bool) -> str:
    """What the plain loop is."""
    parts = ["the same DiT in ordinary modules", "one seed", "AdamW", "clipping", "averaged weights"]
    return f"a plain PyTorch loop ({', '.join([*parts, *(['bf16 autocast'] if gpu else [])])})"


CAPTION = (
    "ms: of a step of all members; plain: {}; "
    "x plain, x solo: seed-steps a second, over the plain loop's and over ours with one member; rate: of the products "
    "of the blocks, and its share of what one large product reaches here ({:.3g} TFLOP/s, {}); start: from nothing to "
    "full speed; GiB: the most memory in use{}"
)


def print_table(rows: Sequence[Row]) -> None:
    """The rows for people, with what they are compared with."""
    from rich.box import SIMPLE
    from rich.table import Table

    from recombine.progress import console

    first = rows[0]
    gpu = not first.device.startswith("CPU")
    whole = "" if gpu else ", by the whole process"
    table = Table(
        caption=CAPTION.format(first.plain or _plain(gpu), first.peak_tflops, first.device, whole),
        caption_justify="left",
        box=SIMPLE,
        pad_edge=False,
    )
    headings = ["case", "members", "ms", "x plain", "x solo", "TFLOP/s", "rate", "start"]
    for heading in [*headings, *(["GiB"] if first.memory_gib is not None else [])]:
        table.add_column(heading, justify="left" if heading == "case" else "right", no_wrap=True)
    for row in rows:
        memory = [] if row.memory_gib is None else [f"{row.memory_gib:.1f}"]
        table.add_row(
            row.name,
            f"{row.members} x {row.batch}",
            f"{row.milliseconds:.1f}",
            f"{row.ratio:.1f}",
            f"{row.solo_ratio:.1f}",
            f"{row.tflops:.3g}",
            f"{row.peak_share:.0%}",
            f"{row.start_seconds:.1f} s",
            *memory,
        )
    console().print(table)


GPU_CASES = [Case("s", 8, 7, 128), Case("b", 8, 7, 128), Case("b", 8, 16, 32)]
CPU_CASES = [Case("xs", 8, 3, 64)]


def run_bench(device: torch.device, commit: str, cases: list[Case] | None = None) -> Iterator[Row]:
    """A row for each case, as soon as it is there."""
    gpu = device.type == "cuda"
    name = (
        torch.cuda.get_device_name(device)
        if gpu
        else f"CPU, {torch.get_num_threads()} thread" + "s" * (torch.get_num_threads() > 1)
    )
    for case in cases or (GPU_CASES if gpu else CPU_CASES):
        begin_peak(device)
        try:
            step, start = members_step(case, case.members, device)
            memory = peak_gib(device)
            product, work = large_product(device)
            steps = [step, members_step(case, 1, device)[0], plain_step(case, device), product]
            goes, solo_goes, plain_goes, product_goes = in_turn(steps, device)
        except FULL as error:
            if not ran_out(error):
                raise
            raise UserError(
                f"{case.members} members of size {case.size} with {case.tokens} tokens and batch {case.batch} do not "
                "fit into memory: lower --members, --batch, --side or --size."
            ) from error
        seconds, plain = statistics.median(goes), statistics.median(plain_goes)
        rate = flops(case) * case.members / seconds / 1e12
        peak = work / statistics.median(product_goes) / 1e12
        yield Row(
            name=f"dit-{case.size}-{case.tokens}",
            size=case.size,
            members=case.members,
            tokens=case.tokens,
            batch=case.batch,
            milliseconds=round(1e3 * seconds, 3),
            plain_milliseconds=round(1e3 * plain, 3),
            ratio=round(case.members * _over(plain_goes, goes), 2),
            solo_ratio=round(case.members * _over(solo_goes, goes), 2),
            tflops=float(f"{rate:.4g}"),  # digits, not places: on a busy CPU it is next to nothing
            peak_share=float(f"{rate / peak:.3g}"),
            peak_tflops=float(f"{peak:.4g}"),
            memory_gib=memory,
            start_seconds=round(start, 1),
            device=name,
            torch=torch.__version__,
            commit=commit,
            plain=_plain(gpu),
        )


def flops(case: Case) -> float:
    """Of one step of one member: the products of the blocks, forward and twice as much backward."""
    d, tokens = case.dimensions, case.tokens
    return 3 * case.batch * d.depth * (2 * tokens * 12 * d.width**2 + 4 * tokens**2 * d.width)


Step = Callable[[int], None]  # does so many steps


def in_turn(steps: Sequence[Step], device: torch.device, rounds: int = 5, least: float = 0.3) -> list[list[float]]:
    """Seconds per step of each, in every round: one after the other for at least `least` seconds, over and over, so
    that what disturbs the machine for a while disturbs them all. Steps are warm already."""

    def seconds(step: Step, count: int) -> float:
        begun = time.perf_counter()
        step(count)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return (time.perf_counter() - begun) / count

    for step in steps:
        seconds(step, 2)  # and whatever was still going on
    counts = [max(2, math.ceil(least / seconds(step, 3))) for step in steps]
    goes = [[seconds(step, count) for step, count in zip(steps, counts, strict=True)] for _ in range(rounds)]
    return [list(own) for own in zip(*goes, strict=True)]


def _over(some: Sequence[float], others: Sequence[float]) -> float:
    """The median over rounds of how many times longer some took than others."""
    return statistics.median(a / b for a, b in zip(some, others, strict=True))


def large_product(device: torch.device) -> tuple[Step, float]:
    """A large product in the dtype that training uses here, and its floating-point operations."""
    gpu = device.type == "cuda"
    side = 8192 if gpu else 1024
    a = torch.randn(side, side, device=device, dtype=torch.bfloat16 if gpu else torch.float32)
    b = torch.randn_like(a)

    def step(count: int) -> None:
        for _ in range(count):
            a @ b

    step(3)
    return step, 2 * side**3


def _data(case: Case, device: torch.device) -> TrainingData:
    x = torch.randn(case.images, case.tokens, CHANNELS, device=device)
    return TrainingData(x, None, torch.randint(2, (case.images, 3), device=device).float())


def members_step(case: Case, members: int, device: torch.device) -> tuple[Step, float]:
    """Our trainer's steps, and seconds from nothing to its first ones at full speed."""
    begun = time.perf_counter()
    shape = TokenShape((case.side, case.side), CHANNELS, None)
    factors = Shapes2D(Shapes2DSettings()).factors
    generator = build_generator(
        DiTSettings(), shape, ConditioningSettings(), factors, case.dimensions, range(members)
    ).to(device)
    settings = TrainingSettings.model_validate({"size": case.size, "batch": case.batch})
    trainer = Trainer(generator, _data(case, device), settings)
    trainer.run(5)
    start = time.perf_counter() - begun
    return trainer.run, start


def plain_step(case: Case, device: torch.device) -> Step:
    """The plain loop's steps."""
    model = PlainDiT(case.dimensions, (case.side, case.side)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
    average = [parameter.detach().clone() for parameter in model.parameters()]
    data = _data(case, device)

    def step(count: int) -> None:
        for _ in range(count):
            index = torch.randint(len(data.x), (case.batch,), device=device)
            x, cond = data.x[index], data.cond[index]
            noise = torch.randn_like(x)
            t = torch.rand(len(x), device=device)
            noisy = t[:, None, None] * x + (1 - t[:, None, None]) * noise
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                velocity = model(noisy, t, cond.long())
            loss = (velocity.float() - (x - noise)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            with torch.no_grad():
                for mean, parameter in zip(average, model.parameters(), strict=True):
                    mean.lerp_(parameter, 1e-3)

    step(5)
    return step


class PlainBlock(nn.Module):
    """The block of backbone.py in ordinary modules."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm_a = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.norm_m = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = self.ada(c)[:, None].chunk(6, dim=-1)
        h = self.norm_a(x) * (1 + scale_a) + shift_a
        q, k, v = self.qkv(h).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + gate_a * self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + gate_m * self.mlp(self.norm_m(x) * (1 + scale_m) + shift_m)


class PlainDiT(nn.Module):
    """DiT for one seed, in ordinary modules."""

    positions: Tensor

    def __init__(self, dimensions: Dimensions, grid: tuple[int, int]):
        super().__init__()
        width = dimensions.width
        self.register_buffer("positions", grid_positions(grid, width))
        self.inputs = nn.Linear(CHANNELS, width)
        self.time = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.labels = nn.ModuleList(nn.Embedding(2, width) for _ in range(3))
        self.blocks = nn.ModuleList(PlainBlock(width, dimensions.heads) for _ in range(dimensions.depth))
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))
        self.head = nn.Linear(width, CHANNELS)

    def forward(self, x: Tensor, t: Tensor, labels: Tensor) -> Tensor:
        c = self.time(sinusoid(t * 1000, 256))
        for place, table in enumerate(self.labels):
            c = c + table(labels[:, place])
        h = self.inputs(x) + self.positions
        for block in self.blocks:
            h = block(h, c)
        shift, scale = self.ada(c)[:, None].chunk(2, dim=-1)
        return self.head(self.norm(h) * (1 + scale) + shift)
