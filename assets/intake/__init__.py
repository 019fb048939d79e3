"""Import of files: uploads, folders, watch folders."""
