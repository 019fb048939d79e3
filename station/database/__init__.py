"""PostgreSQL features used beside Django's ORM: separate sessions, NOTIFY, prepared statements."""
