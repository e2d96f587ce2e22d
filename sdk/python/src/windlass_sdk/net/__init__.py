"""HTTP: addresses, two clients, repeats, the store's clock."""
