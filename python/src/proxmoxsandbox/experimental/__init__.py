"""What evals for the Proxmox plugin import from its experimental part."""
