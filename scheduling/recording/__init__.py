"""A booking while it records: its life, its workload, its outcome, and what people do by hand."""
