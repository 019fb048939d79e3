"""`make chaos`: two schedulers record and play out while faults are injected; nothing may be lost, doubled or stuck.

`run` is the course of a run, `faults` what goes wrong, `staging` what is recorded and played, `verdict` the judgement.
"""
