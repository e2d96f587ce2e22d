"""Durable calls by the worker protocol: pure rules of order, and the contexts that handlers use."""
