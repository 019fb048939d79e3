"""Files of assets: their locations, checksums, sandboxed decoding and technical data."""
