"""Sharding of a model over the workers: each keeps its part of every weight, gradient and Adam mean (torch's FSDP2).

A layer's weights are gathered while it computes and dropped after it; of its gradient, each worker receives the sum of
its own part (Zhao et al. 2023; Rajbhandari et al. 2020, stage 3). A tensor is cut along its first dimension.
"""

from typing import Any

from torch import Tensor, nn

from pellucid.model import Transformer
from pellucid.train.distributed import Workers


def place_model(model: Transformer, workers: Workers, shard: bool) -> Transformer:
    """Return the model on this worker's device: all of it, or only this worker's part if it is to be sharded.

    All workers must hold the same weights before.
    """
    if not shard or workers.world_size == 1:
        return model.to(workers.device)
    # torch's FSDP takes seconds to import, so only runs that are sharded do.
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method

    mesh = init_device_mesh(workers.device.type, (workers.world_size,))
    # Layer by layer, and the rest of the model last: each call shards what is not sharded yet.
    for module in (*model.encoder, *model.decoder, model):
        fully_shard(module, mesh=mesh)
    for module in model.modules():
        if isinstance(module, FSDPModule):  # sum first, divide once; gloo can only sum
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    # FSDP gathers weights around forward(); training calls states().
    register_fsdp_forward_method(model, "states")
    return model


def is_sharded(model: nn.Module) -> bool:
    """Whether this worker keeps only its part of the model."""
    # fully_shard gives a model this method; asking for the class would import FSDP.
    return hasattr(model, "unshard")


def gather_embeddings(model: nn.Module) -> None:
    """Gather the weights outside of the layers, which the loss reads, until the end of the next backward pass."""
    if is_sharded(model):
        unshard: Any = model.unshard
        unshard()


def gather_tensor(tensor: Tensor) -> Tensor:
    """Return the whole of a tensor; every worker must call this at once if it is sharded."""
    full = getattr(tensor, "full_tensor", None)
    return full() if full else tensor


def shard_like(tensor: Tensor, like: Tensor) -> Tensor:
    """Return a tensor that all workers hold whole on the device of `like`, and sharded if that is.

    A tensor of another shape (Adam's count of steps) stays whole.
    """
    mesh = getattr(like, "device_mesh", None)
    if mesh is None or tensor.shape != like.shape:
        return tensor.to(like.device)
    from torch.distributed.tensor import distribute_tensor

    placements: Any = like.placements  # pyright: ignore[reportAttributeAccessIssue]
    return distribute_tensor(tensor, mesh, placements, src_data_rank=None)  # None: nothing is sent
