"""Stands for the package that starts kind: the cluster is there already."""
