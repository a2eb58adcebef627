"""The optimizers: Adam (paper, 5.3), and Muon, whose step is equally strong in every direction of a matrix."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim.adam import adam as adam_step

from pellucid.cpu import has_native_bfloat16, limit_threads, thread_pool
from pellucid.model import Transformer
from pellucid.training.config import OptimConfig
from pellucid.training.distributed import gather_tensor, shard_like

# Numbers for which another thread pays off where gradients are added, clipped and applied.
NUMBERS_PER_THREAD = 2**23

# Share of the running mean of the gradients that an update keeps (Jordan et al. 2024).
MOMENTUM = 0.95
# Root mean square of the numbers of a step at a learning rate of 1, which is about as large as in
# Adam's steps. One learning rate then suits both optimizers (Liu et al. 2025, section 2.2).
STEP_SIZE = 0.2
# Smallest singular value, as a share of the largest, that a step brings near to 1; smaller ones
# stay smaller.
SMALLEST_SINGULAR_VALUE = 0.02

# Divisor of a matrix before each polynomial in bfloat16 (Amsel et al. 2025, section 4.4). Roundings
# bring singular values above the interval of a polynomial, where it grows fast: without the margin
# some end at 1.2, and the single value of a matrix with one row at 16.
ROUNDING_MARGIN = 1.01

# Polynomials a x + b x^3 + c x^5 applied to each matrix, one after the other; each takes three
# products of matrices. Each is the one nearest to 1 on the interval that the one before leaves of
# [SMALLEST_SINGULAR_VALUE, 1], which makes all together the nearest (Amsel et al. 2025, theorem
# 4.1). They were found by Remez' algorithm in float64, and tests/laws/test_muon.py holds them to
# Chebyshev's condition.
POLYNOMIALS = (
    (7.710969245867682, -22.113754790481153, 16.248743017738462),
    (3.2152759873077454, -2.4111720102557843, 0.501300013614882),
    (2.2183077524237906, -1.5939896229158328, 0.4107478875105001),
)


def limit_step_threads(gradients: Sequence[Tensor]) -> AbstractContextManager[None]:
    """Use no more threads than adding, clipping and applying these gradients is worth.

    Threads that share an operation wait for each other at its end, hundreds of times in an update.
    Beside busy programs each wait may cost a turn of the processor.
    """
    numbers = sum(gradient.numel() for gradient in gradients)
    return limit_threads(max(1, min(torch.get_num_threads(), numbers // NUMBERS_PER_THREAD)))


class Optimizer(Protocol):
    """The part of an optimizer that an update uses; PyTorch's optimizers have it."""

    param_groups: list[dict[str, Any]]  # each has a learning rate, "lr"
    state: Any  # mapping: of each weight, the tensors that its next step depends on

    def step(self) -> Any:
        """Change the weights once, by their gradients."""


class Adam:
    """Adam (Kingma and Ba 2015): each number moves by the mean of its gradients over the root of their mean square.

    PyTorch's class of this name imports PyTorch's compiler, which takes a second; the function of
    its step does not.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        c: OptimConfig,
        matrices: Iterable[nn.Parameter] = (),
    ) -> None:
        """Take the parameters to change, and the matrices that decay if the settings have a weight decay."""
        self.parameters, self.c = list(parameters), c
        self._decaying = list(matrices) if c.weight_decay else []
        self.param_groups: list[dict[str, Any]] = [{"lr": 0.0}]
        self.state: dict[nn.Parameter, dict[str, Tensor]] = {}

    @torch.no_grad()
    def step(self) -> None:
        """Change, once, all weights that have a gradient; before that, let the matrices decay."""
        c, rate = self.c, self.param_groups[0]["lr"]
        # Not as a part of the gradients, whose size Adam and Muon even out (Loshchilov and Hutter
        # 2019).
        for matrix in self._decaying:
            matrix.mul_(1 - rate * c.weight_decay)

        weights: list[Tensor] = []
        gradients, means, squares, steps = [], [], [], []
        for weight in self.parameters:
            if weight.grad is None:
                continue
            if weight not in self.state:
                self.state[weight] = {
                    "step": torch.zeros((), device=weight.device),
                    "exp_avg": torch.zeros_like(weight),
                    "exp_avg_sq": torch.zeros_like(weight),
                }
            state = self.state[weight]
            weights.append(weight)
            gradients.append(weight.grad)
            means.append(state["exp_avg"])
            squares.append(state["exp_avg_sq"])
            steps.append(state["step"])

        constants = {"beta1": c.beta1, "beta2": c.beta2, "eps": c.epsilon, "lr": rate}
        unused = {"amsgrad": False, "weight_decay": 0.0, "maximize": False}
        # Fused: all weights change in one pass over them.
        adam_step(
            weights,
            gradients,
            means,
            squares,
            max_exp_avg_sqs=[],
            state_steps=steps,
            fused=True,
            **constants,
            **unused,
        )


class Muon:
    """Muon for the matrices inside the layers and Adam for all other weights, both at one learning rate.

    Muon (Jordan et al. 2024) keeps a running mean of each matrix's gradients, as Adam does, and
    replaces it by the nearest matrix that has only singular values of 1. A gradient is large in a
    few directions, and so are Adam's steps; Muon's are equally large in all, so that rare
    directions are learned as fast as common ones.
    """

    def __init__(self, grids: Mapping[nn.Parameter, tuple[int, int]], adam: Adam) -> None:
        """Take the matrices, each with the rows and columns of blocks that it consists of, and Adam over the rest."""
        self._grids, self._adam = dict(grids), adam
        # Now, for the caller may use fewer during a step.
        self._threads = torch.get_num_threads()
        # Shared, not copied: callers set learning rates and save states without knowing that there
        # are two optimizers.
        self.param_groups, self.state = adam.param_groups, adam.state

    @torch.no_grad()
    def step(self) -> None:
        """Change all weights once, by their gradients."""
        self._adam.step()
        rate = self.param_groups[0]["lr"]
        blocks = []
        for matrix, grid in self._grids.items():
            # A sharded matrix is gathered first: singular values belong to the whole matrix.
            momentum = gather_tensor(self._add_gradient(matrix))
            blocks.append(cut_blocks(momentum, *grid))

        directions = orthogonalize_all(blocks, self._threads)
        for (matrix, grid), direction in zip(self._grids.items(), directions, strict=True):
            # The r rows of a block, r <= c, have squares that sum up to r, over r * c numbers.
            size = STEP_SIZE * max(direction.shape[1:]) ** 0.5
            step = shard_like(join_blocks(direction, *grid), matrix)
            matrix.sub_(step, alpha=rate * size)

    def _add_gradient(self, matrix: nn.Parameter) -> Tensor:
        """Add the gradient of a matrix to its running mean; return the mean with it added once more."""
        state, gradient = self.state.setdefault(matrix, {}), matrix.grad
        assert gradient is not None
        if not state:
            state["momentum"] = torch.zeros_like(matrix)
        momentum = state["momentum"].mul_(MOMENTUM).add_(gradient, alpha=1 - MOMENTUM)
        # Nesterov's momentum: the mean as it will be if the next gradient is like this one.
        return (gradient * (1 - MOMENTUM)).add_(momentum, alpha=MOMENTUM)


def make_optimizer(model: Transformer, c: OptimConfig) -> Optimizer:
    """Return the optimizer of a run, which changes all parameters of the model."""
    grids = matrix_blocks(model)
    if c.kind == "adam":
        return Adam(model.parameters(), c, grids)
    return Muon(grids, Adam((p for p in model.parameters() if p not in grids), c, grids))


def matrix_blocks(model: Transformer) -> dict[nn.Parameter, tuple[int, int]]:
    """Return the matrices of the model's layers, each with the rows and columns of blocks that it consists of.

    Each head has projections of its own to queries, keys and values, and from its output (paper,
    3.2.2); the model keeps the projections of all heads in one matrix. Embeddings, norms and biases
    are not among them: Muon does not suit them.
    """
    heads, grids = model.config.heads, {}
    for name, parameter in model.named_parameters():
        if parameter.dim() != 2 or not name.startswith(("encoder.", "decoder.")):
            continue
        if name.endswith("qkv.weight"):
            grids[parameter] = 3 * heads, 1
        elif name.endswith("output.weight"):
            grids[parameter] = 1, heads
        elif name.endswith("inner.weight") and model.config.activation == "swiglu":
            grids[parameter] = 2, 1
        else:
            grids[parameter] = 1, 1

    return grids


def cut_blocks(matrix: Float[Tensor, "R C"], rows: int, columns: int) -> Float[Tensor, "n r c"]:
    """Cut a matrix into a grid of equal blocks, listed row by row.

    >>> cut_blocks(torch.tensor([[1, 2], [3, 4]]), 2, 1).tolist()
    [[[1, 2]], [[3, 4]]]
    """
    return matrix.unflatten(1, (columns, -1)).unflatten(0, (rows, -1)).transpose(1, 2).flatten(0, 1)


def join_blocks(blocks: Float[Tensor, "n r c"], rows: int, columns: int) -> Float[Tensor, "R C"]:
    """Put the blocks of `cut_blocks` together again."""
    return blocks.unflatten(0, (rows, columns)).transpose(1, 2).flatten(2, 3).flatten(0, 1)


def orthogonalize_all(
    stacks: Sequence[Float[Tensor, "n r c"]], threads: int
) -> list[Float[Tensor, "n r c"]]:
    """Return `orthogonalize` of matrices of any shapes; matrices of one shape are computed together.

    On a CPU, `threads` threads share the matrices: a single product is too small to be shared.
    """
    if stacks[0].device.type != "cpu":
        threads = 1
    flat: list[Tensor] = []  # each stack turned so that it has no more rows than columns
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for index, stack in enumerate(stacks):
        flat.append(stack if stack.shape[1] <= stack.shape[2] else stack.mT)
        by_shape.setdefault(tuple(flat[-1].shape[1:]), []).append(index)

    # The matrices of each shape, as one share for each thread.
    shares: list[Tensor] = []
    shares_of_shape: list[int] = []
    for indices in by_shape.values():
        whole = torch.cat([flat[index] for index in indices])
        parts = whole.chunk(threads)
        shares.extend(parts)
        shares_of_shape.append(len(parts))

    done = thread_pool(threads, 1).map(orthogonalize, shares)

    directions = list(stacks)
    for indices, count in zip(by_shape.values(), shares_of_shape, strict=True):
        whole = torch.cat([next(done) for _ in range(count)])
        sizes = [len(stacks[index]) for index in indices]
        for index, direction in zip(indices, whole.split(sizes), strict=True):
            is_turned = direction.shape != stacks[index].shape
            directions[index] = direction.mT if is_turned else direction

    return directions


@torch.no_grad()
def orthogonalize(matrices: Float[Tensor, "n r c"]) -> Float[Tensor, "n r c"]:
    """Return, for each matrix, about the nearest one whose singular values are all 1; r is at most c.

    If M = U S V^T, that is U V^T. An odd polynomial p applied to M gives U p(S) V^T, and needs no U
    and no V: p(M) = a M + b (M M^T) M + c (M M^T)^2 M. The polynomials come from Polar Express
    (Amsel et al. 2025). Directions that are much weaker than the others (SMALLEST_SINGULAR_VALUE)
    and a matrix of zeros stay below 1.
    """
    dtype = matrices.dtype
    tiny = torch.finfo(dtype).tiny
    # Only as a share of the norm, for gradients may be so small that their squares vanish.
    x = matrices / matrices.abs().amax((-2, -1), keepdim=True).clamp(min=tiny)
    margin = 1.0
    if has_native_bfloat16(x.device):
        x, margin = x.bfloat16(), ROUNDING_MARGIN

    gram = x @ x.mT
    # Rows are scaled so that no singular value is above 1, and most are not far below ("almost
    # orthogonal", Prach and Lampert 2022; before Muon's polynomials: Boissin et al. 2025). It saves
    # two polynomials of five.
    scale = gram.abs().sum(-1, keepdim=True).clamp(min=tiny).rsqrt()
    x, gram = scale * x, scale * gram * scale.mT

    for number, (a, b, c) in enumerate(POLYNOMIALS):
        if number > 0:
            gram = x @ x.mT
        factors = torch.baddbmm(gram, gram, gram, beta=b / margin**3, alpha=c / margin**5)
        x = torch.baddbmm(x, factors, x, beta=a / margin)

    return x.to(dtype)
