"""Jupyter kernels that communicate through files, not ports: two that start together cannot take each other's port."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import jupyter_client
from jupyter_client.manager import AsyncKernelManager
from traitlets import CaselessStrEnum, default

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class KernelOverFiles(AsyncKernelManager):
    """Kernel manager that communicates through files in a folder of its own."""

    # Jupyter's own manager looks for free ports, which the kernel takes only a second later.
    transport = CaselessStrEnum(["tcp", "ipc"], default_value="ipc")

    @default("ip")
    def _make_folder(self) -> str:
        # An absolute path: the kernel runs in the folder of its page.
        self._folder = TemporaryDirectory(prefix="kernel-")
        return str(Path(self._folder.name, "ipc"))

    def cleanup_ipc_files(self) -> None:
        """Remove the folder too once the kernel has stopped."""
        # Here, because Sphinx's workers end without any other cleaning up.
        super().cleanup_ipc_files()
        if Path(self.ip).is_absolute():
            self._folder.cleanup()


def setup(app: "Sphinx") -> dict[str, Any]:
    """Let every page be executed by such a kernel."""
    # nbclient asks for the class by this name.
    jupyter_client.AsyncKernelManager = KernelOverFiles  # pyright: ignore[reportPrivateImportUsage]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
