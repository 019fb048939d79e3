"""Django's backend for PostgreSQL, with sessions kept free for the threads that go first."""
