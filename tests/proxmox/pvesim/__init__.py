"""A server that behaves as the Proxmox VE API does, for tests."""
