"""Drop-in for evals written for the Proxmox plugin: the same names, run by moat."""
