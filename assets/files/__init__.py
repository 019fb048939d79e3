"""Files of assets: where they are, how strangers' files are opened, what is in them."""
