"""One behavioural conformance suite per point, for the seed's functions and for every candidate alike.

A suite is the module `harness/conformance/<module>_<point>.py`: functions `case_*(fn, make_context)`, run in the order
they are written, each with a one-line docstring that states the rule. See `harness.conformance.base`.
"""
