"""Recording a booking: its states, its workload, its outcome, the pre-flight checks and the buttons."""
