"""Jobs as code declares them: triggers, payloads, what a handler is given, and the rows that mirror them."""
