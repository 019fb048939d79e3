"""The process of a media worker: configuration, HTTP server, exit codes, redaction, and its end with its parent."""
