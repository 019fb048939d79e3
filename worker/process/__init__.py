"""What both media workers need of their process: HTTP, exit codes, redaction, an end with the parent."""
