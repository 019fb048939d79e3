"""What every process needs of PostgreSQL beside Django: sessions of its own, NOTIFY, prepared statements."""
