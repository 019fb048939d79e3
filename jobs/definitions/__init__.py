"""Jobs as declared in code: triggers, payloads, the handler's context, and the rows that mirror them."""
