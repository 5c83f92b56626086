"""What keeps a server running for others: numbers, health, logs, an orderly end."""
