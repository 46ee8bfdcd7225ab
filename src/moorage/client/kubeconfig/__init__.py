"""Kubeconfig as kubectl has it: where the files are, how they are merged, and what a context says."""

from moorage.client.kubeconfig.context import Kubeconfig, load
from moorage.client.kubeconfig.files import KubeconfigError

__all__ = ["Kubeconfig", "KubeconfigError", "load"]
