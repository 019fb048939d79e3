"""The scheduler process: leader election, the loop of steps, and the dispatch of starts on time."""
