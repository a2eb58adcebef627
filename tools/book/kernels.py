"""Kernels that are spoken to through files, not ports: two that start together can never take each other's port."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import jupyter_client
from jupyter_client.manager import AsyncKernelManager
from traitlets import CaselessStrEnum, default

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class KernelOverFiles(AsyncKernelManager):
    """Jupyter's own looks for free ports and hands their numbers to the kernel, which takes them a second later."""

    transport = CaselessStrEnum(["tcp", "ipc"], default_value="ipc")

    @default("ip")
    def _own_folder(self) -> str:
        # An absolute path: the kernel runs in the folder of its page.
        self._folder = TemporaryDirectory(prefix="kernel-")
        return str(Path(self._folder.name, "ipc"))

    def cleanup_ipc_files(self) -> None:
        """Once the kernel has stopped, its folder goes too: Sphinx's workers end without tidying up."""
        super().cleanup_ipc_files()
        if Path(self.ip).is_absolute():
            self._folder.cleanup()


def setup(app: "Sphinx") -> dict[str, Any]:
    """Lets every page be executed by such a kernel: nbclient asks for the class by this name."""
    jupyter_client.AsyncKernelManager = KernelOverFiles  # pyright: ignore[reportPrivateImportUsage]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
