"""A model sharded over the workers: each keeps its part of every weight, gradient and memory of Adam (torch's FSDP2).

A layer's weights are gathered while it computes and dropped after it; of its gradient, each worker is sent the sum of
its own part (Zhao et al. 2023; Rajbhandari et al. 2020, stage 3). A tensor is cut along its first dimension. What torch
needs for it takes seconds to import, so only runs that are sharded do.
"""

from typing import Any

from torch import Tensor, nn

from pellucid.model import Transformer
from pellucid.train.distributed import Workers


def place_model(model: Transformer, workers: Workers, shard: bool) -> Transformer:
    """The model where this worker computes: all of it, or, where it is to be sharded over several, their parts.

    All workers must hold the same weights before. Raises ValueError for a model that cannot be sharded.
    """
    if not shard or workers.world_size == 1:
        return model.to(workers.device)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method

    if empty := [name for name, parameter in model.named_parameters() if not parameter.numel()]:
        raise ValueError(
            f"train.shard_model cannot cut {empty[0]}, which has no numbers (model.fewer_heads leaves no head there); "
            "train that model with train.shard_model = false"
        )
    mesh = init_device_mesh(workers.device.type, (workers.world_size,))
    for part in (*model.encoder, *model.decoder, model):
        fully_shard(part, mesh=mesh)
    for part in model.modules():
        if isinstance(part, FSDPModule):  # sum first, divide once; gloo can only sum
            part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(True)
    register_fsdp_forward_method(model, "states")
    return model


def is_sharded(model: nn.Module) -> bool:
    """Whether this worker keeps only its part of the model."""
    return hasattr(model, "unshard")


def gather_embeddings(model: nn.Module) -> None:
    """Until the end of the next backward pass, have all that is outside of the layers: the loss reads of it, too."""
    if is_sharded(model):
        unshard: Any = model.unshard
        unshard()


def gather_tensor(tensor: Tensor) -> Tensor:
    """All of a tensor. Where it is sharded, every worker must ask for it at once."""
    full = getattr(tensor, "full_tensor", None)
    return full() if full else tensor


def shard_like(tensor: Tensor, like: Tensor) -> Tensor:
    """A tensor that all workers hold whole, as `like` is kept: on its device, and where that is sharded, cut as it is.

    A tensor of another shape (Adam's count of steps) is kept whole.
    """
    mesh = getattr(like, "device_mesh", None)
    if mesh is None or tensor.shape != like.shape:
        return tensor.to(like.device)
    from torch.distributed.tensor import distribute_tensor

    placements: Any = like.placements  # pyright: ignore[reportAttributeAccessIssue]
    return distribute_tensor(tensor, mesh, placements, src_data_rank=None)  # no one sends: each cuts what it holds
