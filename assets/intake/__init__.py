"""How files come in: uploads, folders, watch folders."""
