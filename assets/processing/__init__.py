"""What is made of an asset after it is recorded or imported, step by step."""
