"""Kernels over the plane: planted kernels are recognised, nothing held out is fitted on, and gradients are exact."""

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import one_hot

from recombine.anatomy.kernels import (
    FAMILIES,
    compare_kernels,
    gradient_kernel,
    kernel_regression,
    length_choices,
    model_kernel,
    representational_kernel,
)
from recombine.anatomy.plane import plane_cells
from recombine.anatomy.ridge import KernelRidge
from recombine.errors import UserError
from recombine.nets.layers import Linear, SeedStream

SIZE = 10
CELLS = plane_cells(SIZE)
TRAINED = ~((CELLS >= 3) & (CELLS <= 7)).all(1)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def population(width: float) -> Tensor:
    """The bump code of x beside that of y, on units that reach beyond the border, (C, units)."""
    units = torch.arange(-10, SIZE + 10).double()
    codes = [(-(v.double()[:, None] - units).square() / (2 * width**2)).exp() for v in CELLS.T]
    return torch.cat(codes, dim=1)


def drawn(kernel: Tensor, columns: int, seed: int = 0) -> Tensor:
    """Features (C, columns) whose products are about `kernel`: columns of a Gaussian process."""
    values, vectors = torch.linalg.eigh(kernel)
    return vectors * values.clamp(min=0).sqrt() @ random(len(kernel), columns, seed=seed) / columns**0.5


def best(found: dict[str, object], score: str, member: int = 0, smallest: bool = False) -> str:
    pick = min if smallest else max
    return pick(found, key=lambda name: float(getattr(found[name], score)[member]))


# --- comparing a representational kernel with models ----------------------------------------------------------------


def planted() -> dict[str, Tensor]:
    """Features whose kernel belongs to a family, (C, D)."""
    hot = torch.cat([one_hot(v, SIZE) for v in CELLS.T], dim=1).double()
    return {
        "factorized": population(2 / 2**0.5),  # products of codes of width s fall off with length s sqrt(2)
        "binary_factorized": hot,
        "conjunction": torch.eye(len(CELLS)).double(),
        "radial": drawn(model_kernel("radial", (2.0,), CELLS)[0], 20_000),
        "product": drawn(model_kernel("product", (1.0, 4.0), CELLS)[0], 20_000),
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_a_planted_kernel_is_recognised(family: str) -> None:
    features = planted()[family]
    found = compare_kernels(representational_kernel(features[None], TRAINED), CELLS, TRAINED)
    assert best(found, "trained") == family
    own = found[family]
    assert own.trained.item() > 0.98
    if family != "conjunction":  # a table has nothing to say about pairs of different cells
        assert own.across.item() > 0.97 and own.held_out.item() > 0.97
    else:
        assert own.across.isnan().all()
    wanted = {"factorized": (2.0, 2.0), "radial": (2.0,), "product": (1.0, 4.0)}.get(family, ())
    assert own.lengths == [wanted]


def test_factors_of_unlike_strength_and_length_are_still_factorized() -> None:
    x, y = population(1 / 2**0.5).tensor_split(2, dim=1)[0], population(4 / 2**0.5).tensor_split(2, dim=1)[1]
    found = compare_kernels(representational_kernel(torch.cat([3 * x, y], dim=1)[None], TRAINED), CELLS, TRAINED)
    assert best(found, "trained") == "factorized"
    assert found["factorized"].lengths == [(1.0, 4.0)] and found["factorized"].held_out.item() > 0.999


def test_the_fit_uses_no_held_out_cell() -> None:
    kernel = representational_kernel(planted()["factorized"][None], TRAINED)
    spoiled = kernel.clone()
    spoiled[:, ~TRAINED] = random(*spoiled[:, ~TRAINED].shape)
    spoiled[:, :, ~TRAINED] = spoiled[:, ~TRAINED].mT
    one, two = (compare_kernels(k, CELLS, TRAINED) for k in (kernel, spoiled))
    for family in FAMILIES:
        torch.testing.assert_close(one[family].trained, two[family].trained)
        assert one[family].lengths == two[family].lengths
    assert two["factorized"].held_out.item() < 0.1 < one["factorized"].held_out.item()


def test_members_apart_and_a_diverged_one_gets_nan() -> None:
    features = torch.stack([planted()["factorized"][:, :40], planted()["conjunction"][:, :40]])
    kernel = representational_kernel(features, TRAINED)
    broken = torch.cat([kernel, torch.full_like(kernel[:1], torch.nan)])
    found = compare_kernels(broken, CELLS, TRAINED, lengths=(1.0, 2.0))
    for member in range(2):
        alone = compare_kernels(kernel[member : member + 1], CELLS, TRAINED, lengths=(1.0, 2.0))
        for family in FAMILIES:
            torch.testing.assert_close(found[family].trained[member], alone[family].trained[0], equal_nan=True)
    assert found["radial"].trained[2].isnan()


def test_the_representational_kernel_is_centred_and_scaled_on_trained_cells() -> None:
    features = random(2, len(CELLS), 3, 4) + 7
    kernel = representational_kernel(features, TRAINED)
    torch.testing.assert_close(kernel[:, TRAINED][:, :, TRAINED].mean((1, 2)), torch.zeros(2).double())
    torch.testing.assert_close(kernel[:, TRAINED, TRAINED].mean(1), torch.ones(2).double())
    torch.testing.assert_close(kernel, representational_kernel(5 * features - 3, TRAINED))
    assert (representational_kernel(torch.ones(1, len(CELLS), 3), TRAINED) == 0).all()


# --- predicting a network's held-out outputs --------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["factorized", "binary_factorized", "radial", "product"])
def test_outputs_of_a_family_are_predicted_best_by_it(family: str) -> None:
    lengths = {"factorized": (2.0, 2.0), "radial": (4.0,), "product": (1.0, 8.0)}.get(family, ())
    kernel = model_kernel(family, lengths, CELLS).sum(0)
    outputs = torch.stack([drawn(kernel, 30, seed) for seed in range(2)]) + 1.0  # with a background
    found = kernel_regression(outputs, CELLS, TRAINED)
    additive = {"factorized", "binary_factorized"}
    for member in range(2):
        winner = best(found, "held_out", member, smallest=True)
        assert winner == family or {winner, family} == additive  # both can be any a(x) + b(y)
    if family in additive:
        torch.testing.assert_close(found[family].held_out, torch.zeros(2).double(), atol=1e-3, rtol=0)
        assert min(found[other].held_out.min() for other in set(FAMILIES) - additive) > 0.01


def test_a_table_predicts_nothing_and_a_background_costs_nothing() -> None:
    outputs = random(1, len(CELLS), 20)
    found = kernel_regression(outputs, CELLS, TRAINED, families=["conjunction"])
    # Each trained cell is predicted by the mean of the other blocks, which is a little worse than that of all.
    assert 1.0 < found["conjunction"].left_out.item() < 1.3
    single = kernel_regression(outputs, CELLS, TRAINED, families=["conjunction"], block=1)
    n = int(TRAINED.sum())
    assert single["conjunction"].left_out.item() == pytest.approx((n / (n - 1)) ** 2, rel=1e-6)
    assert found["conjunction"].held_out.item() == pytest.approx(1.0)
    white = kernel_regression(1 - outputs, CELLS, TRAINED, families=["radial"])["radial"]
    dark = kernel_regression(outputs, CELLS, TRAINED, families=["radial"])["radial"]
    torch.testing.assert_close(white.held_out, dark.held_out)


def test_regression_chooses_without_held_out_outputs_and_members_apart() -> None:
    outputs = torch.stack([drawn(model_kernel("radial", (length,), CELLS)[0], 20) for length in (1.0, 4.0)])
    found = kernel_regression(outputs, CELLS, TRAINED)
    spoiled = outputs.clone()
    spoiled[:, ~TRAINED] = 100.0
    other = kernel_regression(spoiled, CELLS, TRAINED)
    solo = [kernel_regression(outputs[m : m + 1], CELLS, TRAINED) for m in range(2)]
    for family in FAMILIES:
        assert found[family].lengths == other[family].lengths
        torch.testing.assert_close(found[family].ridge, other[family].ridge)
        torch.testing.assert_close(found[family].held_out, torch.cat([s[family].held_out for s in solo]))
    assert found["radial"].lengths == [(1.0,), (4.0,)]


def test_leave_one_out_equals_refitting_without_the_cell() -> None:
    points, targets = random(12, 2), random(12, 3)
    trained = torch.ones(12, dtype=torch.bool)
    trained[[3, 8]] = False
    distance = torch.cdist(points, points)
    gram = (-distance.square()).exp()
    fit = KernelRidge(gram, trained)
    for ridge in (1e-6, 1e-2, 1.0):
        absolute = ridge * fit.scale
        seen = trained.nonzero()[:, 0]

        def direct(rows: Tensor, at: Tensor, penalty: Tensor = absolute) -> Tensor:
            """Ridge with a constant, from its normal equations: [[K + penalty, 1], [1', 0]]."""
            n = len(rows)
            system = torch.zeros(n + 1, n + 1).double()
            system[:n, :n] = gram[rows][:, rows] + penalty * torch.eye(n)
            system[:n, n] = system[n, :n] = 1
            solved = torch.linalg.solve(system, torch.cat([targets[rows], torch.zeros(1, 3).double()]))
            return gram[at][:, rows] @ solved[:n] + solved[n]

        expected = torch.cat([direct(seen[seen != i], i[None]) for i in seen])
        torch.testing.assert_close(fit.left_out(targets[trained], ridge), expected, rtol=1e-6, atol=1e-8)
        blocks = torch.arange(len(seen)) // 3
        apart = torch.cat([direct(seen[blocks != b], seen[blocks == b]) for b in blocks.unique()])
        torch.testing.assert_close(fit.left_out(targets[trained], ridge, blocks), apart, rtol=1e-5, atol=1e-7)
        held = direct(seen, (~trained).nonzero()[:, 0])
        torch.testing.assert_close(fit.held_out(targets[trained], ridge), held, rtol=1e-6, atol=1e-8)


def test_the_product_is_never_the_radial_kernel_and_bad_input_is_named() -> None:
    assert all(a != b for a, b in length_choices("product"))
    equal = model_kernel("product", (2.0, 2.0), CELLS)
    torch.testing.assert_close(equal, model_kernel("radial", (2.0,), CELLS))  # why equal lengths are left out
    with pytest.raises(UserError, match="radial"):
        length_choices("radail")
    with pytest.raises(UserError, match="each cell once"):
        kernel_regression(torch.zeros(1, 4, 2), torch.zeros(4, 2), torch.tensor([True, True, False, False]))


# --- the gradient kernel --------------------------------------------------------------------------------------------


def test_the_gradient_kernel_of_a_linear_map_is_its_input_kernel() -> None:
    layer = Linear(3, 5, SeedStream([0, 1])).double()
    inputs = random(2, 4, 3)
    kernel = gradient_kernel(lambda p, x: functional_call(layer, p, (x,)), dict(layer.named_parameters()), inputs)
    expected = 5 * (inputs @ inputs.mT + 1)  # one for each output; the bias adds 1
    torch.testing.assert_close(kernel, expected)


class Small(nn.Module):
    """Two layers with a member axis."""

    def __init__(self, seeds: list[int]):
        super().__init__()
        stream = SeedStream(seeds)
        self.a, self.b = Linear(3, 6, stream), Linear(6, 4, stream)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.a(x)))


def test_the_gradient_kernel_equals_gradients_taken_one_by_one_and_members_do_not_mix() -> None:
    net = Small([3, 4])
    inputs = random(1, 5, 3).float().expand(2, 5, 3)
    kernel = gradient_kernel(lambda p, x: functional_call(net, p, (x,)), dict(net.named_parameters()), inputs)
    for member, seed in enumerate((3, 4)):
        solo = Small([seed])
        rows = []
        for b in range(5):
            for p in range(4):
                solo.zero_grad()
                solo(inputs[:1, b : b + 1])[0, 0, p].backward()
                rows.append(torch.cat([w.grad.flatten() for w in solo.parameters() if w.grad is not None]))
        slopes = torch.stack(rows).view(5, 4, -1).double()
        torch.testing.assert_close(kernel[member], torch.einsum("apw,bpw->ab", slopes, slopes), rtol=1e-5, atol=1e-6)
    part = gradient_kernel(lambda p, x: functional_call(net, p, (x,)), dict(net.named_parameters()), inputs, pixels=[2])
    assert (part.diagonal(dim1=1, dim2=2) < kernel.diagonal(dim1=1, dim2=2)).all()
