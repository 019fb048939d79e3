"""The outputs of a channel: the encoder, the senders and the DeckLink cards."""
