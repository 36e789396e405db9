"""A cluster that is there already."""

import os
import pathlib
import shutil
import subprocess


class KindCluster:
    """The cluster of KUBECONFIG."""

    def __init__(self, name="pytest-kind", image=None):
        self.name = name
        self.image = image
        self.kubeconfig_path = pathlib.Path(os.environ["KUBECONFIG"])
        self.kubectl_path = pathlib.Path(shutil.which("kubectl"))

    def create(self, *_):
        """Does nothing."""

    def delete(self):
        """Does nothing."""

    def kubectl(self, *arguments, **options):
        """Runs kubectl; returns its output."""
        return subprocess.check_output([self.kubectl_path, *arguments], encoding="utf-8", **options)
