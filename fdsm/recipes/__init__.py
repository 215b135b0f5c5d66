"""Families of models that can be trained: how to build, train, evaluate and sample them."""
