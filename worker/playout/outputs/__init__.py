"""The channel on its way out: encoder, senders, DeckLink cards."""
